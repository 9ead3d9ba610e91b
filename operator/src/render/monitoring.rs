//! Objects for Prometheus and Grafana. The alerts and the dashboard are files of `monitoring/`,
//! which the chart renders, too.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::extras::{extra, labelled, namespace};
use super::{ADMIN_PORT_NAME, NAME_LABEL};
use crate::extras::{Extra, PURPOSE_LABEL, Purpose};
use crate::validate::{Alerts, ValidatedFilestore};

static ALERTS: LazyLock<Value> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../monitoring/alerts.yaml"))
        .expect("a file of ours that every test of this module reads")
});

const DASHBOARD: &str = include_str!("../../monitoring/dashboard.json");

/// Tells that nothing answers; wrong while that is wanted.
const DOWN: &str = "FilestoreDown";

pub(super) fn extras(filestore: &ValidatedFilestore) -> Vec<Extra> {
    let wanted = &filestore.monitoring;
    let scrape = wanted.scrape.as_ref().map(|scrape| {
        let body = json!({"spec": {
            "selector": {
                "matchLabels": {NAME_LABEL: filestore.name},
                // The pod is behind further names, too, and is to be read once.
                "matchExpressions": [{"key": PURPOSE_LABEL, "operator": "DoesNotExist"}],
            },
            "endpoints": [{
                "targetPort": ADMIN_PORT_NAME, "path": "/metrics", "interval": scrape.interval,
            }],
        }});
        let extra = extra(filestore, Purpose::ServiceMonitor, "", body);
        labelled(extra, &scrape.labels)
    });
    let alerts = wanted.alerts.as_ref().map(|alerts| {
        let body = json!({"spec": rules(filestore, alerts)});
        let extra = extra(filestore, Purpose::PrometheusRule, "", body);
        labelled(extra, &alerts.labels)
    });
    let dashboard = wanted.dashboard.as_ref().map(|dashboard| {
        let file = format!("{}-{}.json", namespace(filestore), filestore.name);
        let body = json!({"data": {file: filled(DASHBOARD, filestore)}});
        let extra = extra(filestore, Purpose::Dashboard, "-dashboard", body);
        labelled(extra, &dashboard.labels)
    });
    [scrape, alerts, dashboard].into_iter().flatten().collect()
}

fn filled(text: &str, filestore: &ValidatedFilestore) -> String {
    text.replace("$(namespace)", namespace(filestore))
        .replace("$(service)", &filestore.name)
}

fn rules(filestore: &ValidatedFilestore, alerts: &Alerts) -> Value {
    let percent = alerts.capacity_warn_percent.to_string();
    let mut spec = ALERTS.clone();
    each_text(&mut spec, &|text| {
        filled(text, filestore).replace("$(warnPercent)", &percent)
    });
    if filestore.suspend {
        let groups = spec["groups"].as_array_mut();
        for rules in groups
            .into_iter()
            .flatten()
            .filter_map(|group| group["rules"].as_array_mut())
        {
            rules.retain(|rule| rule["alert"] != DOWN);
        }
    }
    spec
}

fn each_text(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|item| each_text(item, change)),
        _ => {}
    }
}
