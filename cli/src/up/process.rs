//! A container of the pod as a call of this program: the same arguments and variables, with paths
//! of this machine and the values of the Secrets.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, anyhow};
use clap::Command;
use clap::builder::Resettable;
use filestore_operator::Secrets;
use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::volumes::{Mounts, substitute};

/// Arguments and variables of a container. Its `Debug` shows no values of variables.
#[derive(Clone)]
pub(super) struct Process {
    container: String,
    args: Vec<String>,
    variables: BTreeMap<String, String>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("container", &self.container)
            .field("args", &self.args)
            .field("variables", &self.variables.keys())
            .finish()
    }
}

impl Process {
    /// What `container` would run, here.
    ///
    /// # Errors
    /// A variable refers to something that is no Secret of the manifest.
    pub(super) fn new(
        container: &Container,
        mounts: &Mounts,
        secrets: &Secrets,
    ) -> anyhow::Result<Self> {
        let args = container.args.iter().flatten();
        let variables = container.env.iter().flatten();
        Ok(Self {
            container: container.name.clone(),
            args: args.map(|text| substitute(text, mounts)).collect(),
            variables: variables
                .map(|variable| Ok((variable.name.clone(), value(variable, secrets)?)))
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// The subcommand: the first argument.
    pub(super) fn subcommand(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// Name of the container.
    pub(super) fn container(&self) -> &str {
        &self.container
    }

    /// The variables, for subcommands that read more than their own arguments name.
    pub(super) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Gives the flag `name` another value.
    pub(super) fn set_flag(&mut self, name: &str, value: &str) {
        match self.args.iter().position(|arg| arg == name) {
            Some(index) if index + 1 < self.args.len() => {
                value.clone_into(&mut self.args[index + 1]);
            }
            _ => self.args.extend([name.to_owned(), value.to_owned()]),
        }
    }

    /// Parses the arguments after the subcommand, as the program itself would inside the
    /// container: the variables are the container's, those of our own environment do not count.
    ///
    /// # Errors
    /// The subcommand does not take these arguments.
    pub(super) fn parse<A: clap::Args>(&self) -> anyhow::Result<A> {
        let command = A::augment_args(Command::new("filestore").no_binary_name(true));
        let mut args: Vec<String> = self.args.iter().skip(1).cloned().collect();
        let mut from_variables = Vec::new();
        let command = self.isolate(command, &args, true, &mut from_variables);
        args.extend(from_variables);
        let parsed = command
            .try_get_matches_from(args)
            .and_then(|matches| A::from_arg_matches(&matches));
        parsed.map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default().to_owned();
            anyhow!(line).context(format!("start container {}", self.container))
        })
    }

    /// Cuts a command off from our environment; what the container's variables say becomes
    /// arguments of the subcommand that `args` select.
    fn isolate(
        &self,
        command: Command,
        args: &[String],
        selected: bool,
        from_variables: &mut Vec<String>,
    ) -> Command {
        let command = command.mut_args(|arg| {
            let Some(name) = arg.get_env().and_then(|name| name.to_str()) else {
                return arg;
            };
            if let (Some(value), Some(long)) = (self.variables.get(name), arg.get_long())
                && selected
                && arg.get_action().takes_values()
                && !args
                    .iter()
                    .any(|given| given.strip_prefix("--") == Some(long))
            {
                from_variables.push(format!("--{long}={value}"));
            }
            arg.env(Resettable::Reset)
        });
        let names: Vec<String> = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        names.iter().fold(command, |command, name| {
            let selected = selected && args.first() == Some(name);
            let rest = args.get(1..).unwrap_or_default();
            command.mut_subcommand(name, |sub| {
                self.isolate(sub, rest, selected, from_variables)
            })
        })
    }
}

fn value(variable: &EnvVar, secrets: &Secrets) -> anyhow::Result<String> {
    if let Some(value) = &variable.value {
        return Ok(value.clone());
    }
    let reference = variable
        .value_from
        .as_ref()
        .and_then(|source| source.secret_key_ref.as_ref())
        .with_context(|| format!("variable {} has no value that is known here", variable.name))?;
    Ok(secrets.value(&reference.name, &reference.key)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Args)]
    struct Outer {
        #[command(subcommand)]
        command: Inner,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Inner {
        Run {
            #[arg(long)]
            from: String,
            // Set in every test run: what must not leak in.
            #[arg(long, env = "PATH")]
            path: Option<String>,
            #[arg(long, env = "SECRET_KEY")]
            secret: Option<String>,
        },
        Other {
            #[arg(long, env = "SECRET_KEY")]
            token: Option<String>,
        },
    }

    fn process() -> Process {
        let container = serde_json::from_value(serde_json::json!({
            "name": "migrate",
            "args": ["migrate", "run", "--from", "minio-drive:/source"],
            "env": [
                {"name": "PLAIN", "value": "x"},
                {"name": "SECRET_KEY", "valueFrom": {"secretKeyRef": {"name": "root", "key": "pw"}}},
            ],
        }))
        .unwrap();
        let mut secrets = Secrets::default();
        secrets.insert(
            "root".into(),
            [("pw".to_owned(), b"--odd value".to_vec())].into(),
        );
        let mounts = vec![("/source".to_owned(), "/mnt/old".into())];
        Process::new(&container, &mounts, &secrets).unwrap()
    }

    #[test]
    fn arguments_and_variables_are_those_of_the_container() {
        let outer: Outer = process().parse().unwrap();
        let Inner::Run { from, path, secret } = outer.command else {
            panic!("{outer:?}")
        };

        assert_eq!(from, "minio-drive:/mnt/old");
        assert_eq!(secret.as_deref(), Some("--odd value"));
        assert_eq!(path, None, "our own environment leaked in");
    }

    #[test]
    fn a_flag_can_be_given_another_value() {
        let mut process = process();
        process.set_flag("--from", "volume:x");
        let outer: Outer = process.parse().unwrap();
        assert!(matches!(outer.command, Inner::Run { from, .. } if from == "volume:x"));
    }

    #[test]
    fn unknown_arguments_are_one_line() {
        let mut process = process();
        process.set_flag("--what", "x");
        let error = format!("{:#}", process.parse::<Outer>().unwrap_err());
        assert!(
            error.starts_with("start container migrate: ") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("{:?}", process());
        assert!(
            text.contains("SECRET_KEY") && !text.contains("odd value"),
            "{text}"
        );
    }
}
