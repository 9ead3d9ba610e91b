use super::*;
use http::HeaderValue;

const OTHER: &str = "\"0123456789abcdef0123456789abcdef\"";
const SAME: &str = "\"d41d8cd98f00b204e9800998ecf8427e\"";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const EXACT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn etag() -> ETag {
    ETag::new(SAME)
}

/// Half a second after `EXACT`.
fn modified() -> SystemTime {
    httpdate::parse_http_date(EXACT).unwrap() + Duration::from_millis(500)
}

fn evaluate(pairs: &[(&'static str, &str)]) -> Outcome {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    Conditions::of_read(&headers).evaluate(&etag(), modified())
}

#[test]
fn single_conditions() {
    for (name, value, outcome) in [
        ("if-match", SAME, Outcome::Pass),
        (
            "if-match",
            "d41d8cd98f00b204e9800998ecf8427e",
            Outcome::Pass,
        ),
        ("if-match", "*", Outcome::Pass),
        ("if-match", OTHER, Outcome::Failed),
        ("if-none-match", SAME, Outcome::NotModified),
        ("if-none-match", "*", Outcome::NotModified),
        ("if-none-match", OTHER, Outcome::Pass),
        ("if-modified-since", BEFORE, Outcome::Pass),
        ("if-modified-since", EXACT, Outcome::NotModified),
        ("if-unmodified-since", BEFORE, Outcome::Failed),
        ("if-unmodified-since", EXACT, Outcome::Pass),
        ("if-modified-since", "yesterday", Outcome::Pass),
        ("if-unmodified-since", "yesterday", Outcome::Pass),
        // obsolete forms of RFC 9110, section 5.6.7
        (
            "if-modified-since",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            Outcome::NotModified,
        ),
        (
            "if-modified-since",
            "Sun Nov  6 08:49:37 1994",
            Outcome::NotModified,
        ),
    ] {
        assert_eq!(evaluate(&[(name, value)]), outcome, "{name}: {value}");
    }
}

#[test]
fn tags_win_over_dates() {
    assert_eq!(
        evaluate(&[("if-match", SAME), ("if-unmodified-since", BEFORE)]),
        Outcome::Pass
    );
    assert_eq!(
        evaluate(&[("if-none-match", OTHER), ("if-modified-since", EXACT)]),
        Outcome::Pass
    );
}

#[test]
fn a_failed_condition_wins_over_not_modified() {
    assert_eq!(
        evaluate(&[("if-match", OTHER), ("if-none-match", SAME)]),
        Outcome::Failed
    );
    assert_eq!(
        evaluate(&[("if-none-match", SAME), ("if-unmodified-since", BEFORE)]),
        Outcome::Failed
    );
    assert_eq!(
        evaluate(&[("if-match", SAME), ("if-modified-since", EXACT)]),
        Outcome::NotModified
    );
}

#[test]
fn lists_and_repeated_lines_are_one_set() {
    let list = format!("{OTHER} , {SAME}");
    assert_eq!(evaluate(&[("if-match", &list)]), Outcome::Pass);
    assert_eq!(
        evaluate(&[("if-none-match", OTHER), ("if-none-match", SAME)]),
        Outcome::NotModified
    );
    assert_eq!(
        TagSet::parse("\"a,b\", c"),
        TagSet::Tags(vec![
            Tag {
                value: "a,b".into(),
                weak: false
            },
            Tag {
                value: "c".into(),
                weak: false
            },
        ])
    );
}

#[test]
fn weak_tags_match_weakly_only() {
    let weak = format!("W/{SAME}");
    assert_eq!(evaluate(&[("if-match", &weak)]), Outcome::Failed);
    assert_eq!(evaluate(&[("if-none-match", &weak)]), Outcome::NotModified);
}

#[test]
fn seconds_are_cut_towards_the_past() {
    let half = Duration::from_millis(500);
    assert_eq!(whole_seconds(UNIX_EPOCH + half), UNIX_EPOCH);
    assert_eq!(
        whole_seconds(UNIX_EPOCH - half),
        UNIX_EPOCH - Duration::from_secs(1)
    );
}

fn write(pairs: &[(&'static str, &str)]) -> Option<Precondition> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    write_precondition(&headers).ok()
}

#[test]
fn writes_take_the_conditions_that_s3_supports() {
    assert_eq!(write(&[]), Some(Precondition::None));
    assert_eq!(write(&[("if-none-match", "*")]), Some(Precondition::Absent));
    assert_eq!(write(&[("if-match", "*")]), Some(Precondition::Present));
    assert_eq!(
        write(&[("if-match", SAME)]),
        Some(Precondition::Matches(etag()))
    );
    assert_eq!(
        write(&[("if-match", "x_y")]),
        Some(Precondition::Matches(ETag::new("x_y")))
    );
    assert_eq!(write(&[("if-none-match", SAME)]), None);
    assert_eq!(write(&[("if-match", SAME), ("if-none-match", "*")]), None);
    assert_eq!(write(&[("if-match", "\"a\", \"b\"")]), None);
}
