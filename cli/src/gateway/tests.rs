use super::*;
use clap::Parser;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn parse(arguments: &[&str]) -> Args {
    let arguments = std::iter::once("gateway").chain(arguments.iter().copied());
    Command::try_parse_from(arguments).unwrap().args
}

/// As in versitygw's container and the Ryax chart.
const VERSITYGW: [(&str, &str); 8] = [
    ("VGW_BACKEND", "posix"),
    ("VGW_BACKEND_ARG", "/data"),
    ("VGW_PORT", ":9000"),
    ("VGW_REGION", "eu-west-3"),
    ("VGW_KEEP_ALIVE", "false"),
    ("VGW_QUIET", "true"),
    ("ROOT_ACCESS_KEY_ID", "ryax"),
    ("ROOT_SECRET_ACCESS_KEY", "Ab3dEf6hIj9k"),
];

#[test]
fn versitygw_environment_alone_is_enough() {
    let environment = environment(&VERSITYGW);

    let config = config(parse(&[]), &environment).unwrap();

    assert_eq!(config.volume, PathBuf::from("/data"));
    assert_eq!(config.data_root, Some(PathBuf::from("/data")));
    assert_eq!(config.listen, [Listen::Any(9000)]);
    assert_eq!(config.admin_listen, Some(Listen::Any(9090)));
    assert_eq!(config.region, "eu-west-3");
    assert_eq!(
        config.credentials,
        CredentialSources::single("ryax", "Ab3dEf6hIj9k")
    );
    assert_eq!(log_level(&parse(&[]), &environment), "warn");
    assert_eq!(
        environment.warnings(),
        ["VGW_KEEP_ALIVE=false has no effect: keep-alive is always on"]
    );
}

#[test]
fn flags_win_over_the_environment() {
    let args = parse(&[
        "/volume",
        "--listen",
        "127.0.0.1:9001",
        "--admin-listen",
        "none",
        "--region",
        "r",
        "--access-key",
        "a",
        "--secret-key",
        "hush",
        "--durability",
        "relaxed",
        "--metadata",
        "sidecar",
        "--credentials-dir",
        "/keys",
    ]);
    assert!(!format!("{args:?}").contains("hush"));

    let config = config(args, &environment(&VERSITYGW)).unwrap();

    assert_eq!(config.volume, PathBuf::from("/volume"));
    assert_eq!(config.data_root, None);
    assert_eq!(config.listen, ["127.0.0.1:9001".parse().unwrap()]);
    assert_eq!(config.admin_listen, None);
    assert_eq!(config.region, "r");
    assert_eq!(config.credentials.fixed, [KeyPair::new("a", "hush")]);
    assert_eq!(
        config.credentials.directories[0].path,
        PathBuf::from("/keys")
    );
    assert_eq!(config.durability, Durability::Relaxed);
    assert_eq!(config.metadata, Some(MetadataMode::Sidecar));
}

#[test]
fn settings_that_must_not_be_ignored_are_refused() {
    for (name, value) in [
        ("VGW_BACKEND", "s3"),
        ("VGW_READ_ONLY", "true"),
        ("VGW_PORT", "/run/s3.sock"),
    ] {
        let mut variables = VERSITYGW.to_vec();
        variables.retain(|(had, _)| *had != name);
        variables.push((name, value));

        let error = config(parse(&[]), &environment(&variables)).unwrap_err();

        let text = format!("{error:#}");
        assert!(text.contains(name) && !text.contains('\n'), "{text}");
    }
    let read_write = [VERSITYGW.as_slice(), &[("VGW_READ_ONLY", "false")]].concat();
    assert!(config(parse(&[]), &environment(&read_write)).is_ok());
}

#[test]
fn a_certificate_comes_with_its_key_from_flags_or_from_what_versitygw_reads() {
    let both = [("VGW_CERT", "/tls/tls.crt"), ("VGW_KEY", "/tls/tls.key")];
    let variables = [VERSITYGW.as_slice(), &both].concat();
    let from_variables = config(parse(&[]), &environment(&variables)).unwrap();
    let flags = parse(&["--tls-cert", "/tls/tls.crt", "--tls-key", "/tls/tls.key"]);
    let from_flags = config(flags, &environment(&VERSITYGW)).unwrap();

    let files = from_variables.tls.unwrap();
    assert_eq!(files.certificate, PathBuf::from("/tls/tls.crt"));
    assert_eq!(files.key, PathBuf::from("/tls/tls.key"));
    assert_eq!(from_flags.tls, Some(files));
    assert!(
        config(parse(&[]), &environment(&VERSITYGW))
            .unwrap()
            .tls
            .is_none()
    );

    for (half, missing) in [(both[0], "--tls-key"), (both[1], "--tls-cert")] {
        let variables = [VERSITYGW.as_slice(), &[half]].concat();
        let error = config(parse(&[]), &environment(&variables)).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn half_a_key_pair_is_an_error() {
    let variables = [("VGW_BACKEND_ARG", "/data"), ("ROOT_ACCESS_KEY", "ryax")];
    assert!(config(parse(&[]), &environment(&variables)).is_err());
    let variables = [
        ("VGW_BACKEND_ARG", "/data"),
        ("ROOT_ACCESS_KEY", "ryax"),
        ("ROOT_SECRET_KEY", "x"),
    ];
    assert!(config(parse(&[]), &environment(&variables)).is_ok());
}

#[test]
fn a_directory_with_keys_replaces_those_of_the_environment() {
    let args = parse(&["/volume", "--credentials-dir", "/keys"]);

    let credentials = config(args, &environment(&VERSITYGW)).unwrap().credentials;

    assert_eq!(credentials.fixed, []);
    assert_eq!(credentials.directories[0].path, PathBuf::from("/keys"));
}
