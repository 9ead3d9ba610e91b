use serde_json::json;

use super::*;

fn paths(desired: &Value, live: &Value) -> Vec<String> {
    differences(desired, live)
        .iter()
        .map(Path::to_string)
        .collect()
}

fn pod(containers: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

#[test]
fn what_others_and_the_api_server_add_is_no_difference() {
    let desired = json!({
        "metadata": {"labels": {"a": "1"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{
            "name": "gateway",
            "args": ["x", "y"],
            "env": [{"name": "A", "value": "1"}],
            "ports": [{"name": "api", "containerPort": 9000, "protocol": "TCP"}],
            "resources": {"limits": {"memory": "1024Mi", "cpu": "0.5"}},
        }]}}},
    });
    let live = json!({
        "metadata": {"labels": {"a": "1", "b": "2"}, "uid": "u"},
        "spec": {"replicas": 1, "paused": false, "template": {"spec": {"containers": [
            {"name": "sidecar"},
            {
                "name": "gateway",
                "imagePullPolicy": "IfNotPresent",
                "args": ["x", "y"],
                "env": [{"name": "EXTRA", "value": "e"}, {"name": "A", "value": "1"}],
                "ports": [{"name": "api", "containerPort": 9000, "protocol": "TCP"}],
                "resources": {"limits": {"memory": "1Gi", "cpu": "500m"}},
            },
        ]}}},
    });
    assert_eq!(paths(&desired, &live), [""; 0]);
}

#[test]
fn each_kind_of_difference_is_named() {
    let desired = json!({
        "metadata": {"labels": {"filestore.ryax.tech/name": "x"}},
        "spec": {"replicas": 1},
    });
    let live = json!({"metadata": {}, "spec": {"replicas": 3}});
    assert_eq!(paths(&desired, &live), ["metadata.labels", "spec.replicas"]);

    let container = |args: &Value, env: &Value| {
        pod(&json!([{"name": "gateway", "args": args, "env": env,
            "resources": {"limits": {"memory": "1Gi"}}}]))
    };
    let desired = container(&json!(["a", "b"]), &json!([{"name": "A", "value": "1"}]));
    let live = pod(&json!([{
        "name": "gateway", "args": ["b", "a"], "env": [{"name": "A", "value": "2"}],
        "resources": {"limits": {"memory": "2Gi"}},
    }]));
    assert_eq!(
        paths(&desired, &live),
        [
            "spec.template.spec.containers[gateway].args",
            "spec.template.spec.containers[gateway].env[A].value",
            "spec.template.spec.containers[gateway].resources.limits.memory",
        ]
    );
    assert_eq!(
        paths(&desired, &pod(&json!([]))),
        ["spec.template.spec.containers[gateway]"]
    );
    let service = json!({"spec": {"ports": [{"port": 9000, "protocol": "TCP", "name": "http"}]}});
    let moved = json!({"spec": {"ports": [{"port": 9000, "protocol": "TCP", "name": "s3"}]}});
    assert_eq!(paths(&service, &moved), ["spec.ports[9000].name"]);
}

#[test]
fn what_is_added_counts_where_it_changes_what_ours_says() {
    let desired = json!({"spec": {"selector": {"name": "x"}}});
    let live = json!({"spec": {"selector": {"name": "x", "track": "canary"}, "type": "ClusterIP"}});
    let found = differences(&desired, &live);
    assert_eq!(paths(&desired, &live), ["spec.selector.track"]);
    assert!(is_addition(&desired, &found[0]));
    assert_eq!(
        restore(&desired, &live, &found),
        json!({"spec": {"selector": {"track": null}}})
    );

    let context = |context: Value| pod(&json!([{"name": "gateway", "securityContext": context}]));
    let desired =
        context(json!({"readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}));
    let live = context(json!({
        "readOnlyRootFilesystem": true, "runAsUser": 0,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    }));
    let found = differences(&desired, &live);
    let prefix = "spec.template.spec.containers[gateway].securityContext";
    assert_eq!(
        paths(&desired, &live),
        [
            format!("{prefix}.capabilities.add"),
            format!("{prefix}.runAsUser")
        ]
    );
    assert!(found.iter().all(|path| is_addition(&desired, path)));
    assert_eq!(restore(&desired, &live, &found), desired);

    let replicas = differences(&json!({"spec": {"replicas": 1}}), &json!({"spec": {}}));
    assert!(!is_addition(
        &json!({"spec": {"replicas": 1}}),
        &replicas[0]
    ));
}

fn entry(manager: &str, time: &str, fields: &Value) -> ManagedFieldsEntry {
    serde_json::from_value(json!({
        "manager": manager, "operation": "Update", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }))
    .unwrap()
}

/// The form of `managedFields` is that of Kubernetes 1.37 after `kubectl edit` and `kubectl scale`.
#[test]
fn the_manager_of_a_field_is_found() {
    let managed = [
        entry(
            "filestore-operator",
            "2026-11-30T10:00:00Z",
            &json!({"f:spec": {"f:replicas": {}}}),
        ),
        entry(
            "kubectl",
            "2026-11-30T10:01:00Z",
            &json!({"f:spec": {"f:replicas": {}}}),
        ),
        entry(
            "kubectl-edit",
            "2026-11-30T10:02:00Z",
            &json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"gateway\"}": {"f:env": {"k:{\"name\":\"A\"}": {"f:value": {}}}}
            }}}}}),
        ),
    ];
    let own = ["filestore-operator"];
    let path = |desired: &Value| {
        differences(
            desired,
            &json!({"spec": {"template": {"spec": {
        "containers": [{"name": "gateway", "env": [{"name": "A", "value": "2"}]}]}}}}),
        )
        .remove(0)
    };

    let replicas = path(&json!({"spec": {"replicas": 1}}));
    assert_eq!(manager_of(&replicas, &managed, &own), Some("kubectl"));
    let env = path(&pod(
        &json!([{"name": "gateway", "env": [{"name": "A", "value": "1"}]}]),
    ));
    assert_eq!(manager_of(&env, &managed, &own), Some("kubectl-edit"));
    // Nobody holds a field that was removed.
    let removed = path(&json!({"spec": {"strategy": {"type": "Recreate"}}}));
    assert_eq!(manager_of(&removed, &managed, &own), Some("kubectl-edit"));
    assert_eq!(manager_of(&removed, &managed[..1], &own), None);
    // Who changed the object before we did has not removed what we set.
    let mut older = managed.clone();
    older[0]
        .time
        .clone_from(&entry("", "2026-11-30T10:03:00Z", &json!({})).time);
    assert_eq!(manager_of(&removed, &older, &own), None);
    assert_eq!(holder_of(&removed, &managed, &own), None);

    // A selector is set as a whole.
    let managed = [entry(
        "helm",
        "2026-11-30T10:00:00Z",
        &json!({"f:spec": {"f:selector": {}}}),
    )];
    let selector = Path::fields(&["spec", "selector", "track"]);
    assert_eq!(holder_of(&selector, &managed, &own), Some("helm"));
}

/// Each of these was refused by Kubernetes 1.37 when it was only applied.
#[test]
fn what_excludes_ours_is_taken_away() {
    let variable = |value: Value| {
        pod(&json!([
            {"name": "sidecar", "image": "theirs"},
            {"name": "gateway", "image": "ours", "env": [{"name": "EXTRA", "value": "1"}, value]},
        ]))
    };
    let desired = pod(&json!([{
        "name": "gateway", "image": "ours", "env": [{"name": "A", "valueFrom": {"k": "v"}}],
    }]));
    let live = variable(json!({"name": "A", "value": "intruder"}));
    let patch = restore(&desired, &live, &differences(&desired, &live));
    // Sidecars and variables of others stay.
    assert_eq!(
        patch,
        variable(json!({"name": "A", "valueFrom": {"k": "v"}}))
    );

    let desired = json!({"spec": {"replicas": 1, "strategy": {"type": "Recreate"}}});
    let live = json!({"spec": {
        "replicas": 1, "paused": false,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
    }});
    assert_eq!(
        restore(&desired, &live, &differences(&desired, &live)),
        json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})
    );

    let volume = |source: Value| json!({"spec": {"template": {"spec": {"volumes": [source]}}}});
    let desired = volume(json!({"name": "data", "persistentVolumeClaim": {"claimName": "c"}}));
    let live = volume(json!({"name": "data", "emptyDir": {}}));
    assert_eq!(
        restore(&desired, &live, &differences(&desired, &live)),
        desired
    );

    // A plain field is set and nothing else.
    let live = json!({"spec": {"replicas": 3, "paused": true}});
    let desired = json!({"spec": {"replicas": 1}});
    assert_eq!(
        restore(&desired, &live, &differences(&desired, &live)),
        desired
    );
}
