use super::*;
use s3s::Body;

fn finished(error: S3Error) -> (u16, String) {
    let mut response = error.to_http_response().unwrap();
    reply::finish(&mut response, "/b/a&b", "0123");
    let body = response.body_mut().take_bytes().unwrap_or_default();
    assert!(
        response
            .headers()
            .keys()
            .all(|name| !name.as_str().starts_with("x-filestore"))
    );
    (
        response.status().as_u16(),
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

#[test]
fn store_errors_have_their_code_and_status() {
    for (error, status, code) in [
        (StoreError::NoSuchBucket, 404, "NoSuchBucket"),
        (StoreError::BucketExists, 409, "BucketAlreadyOwnedByYou"),
        (StoreError::BucketNotEmpty, 409, "BucketNotEmpty"),
        (StoreError::NoSuchKey, 404, "NoSuchKey"),
        (StoreError::NoSuchUpload, 404, "NoSuchUpload"),
        (StoreError::InvalidPart(3), 400, "InvalidPart"),
        (StoreError::InvalidPartOrder, 400, "InvalidPartOrder"),
        (
            StoreError::PartTooSmall { number: 1, size: 9 },
            400,
            "EntityTooSmall",
        ),
        (StoreError::BadDigest("x".into()), 400, "BadDigest"),
        (StoreError::PreconditionFailed, 412, "PreconditionFailed"),
        (StoreError::Conflict, 409, "ConditionalRequestConflict"),
        (StoreError::ReservedKey, 400, "InvalidArgument"),
        (
            StoreError::MetadataTooLarge("x".into()),
            400,
            "MetadataTooLarge",
        ),
        (
            StoreError::NoSpace {
                context: "x".into(),
            },
            507,
            "InsufficientStorage",
        ),
        (StoreError::Damaged("secret".into()), 500, "InternalError"),
    ] {
        let (got, body) = finished(from_store(error));
        assert_eq!(got, status, "{body}");
        assert!(body.contains(&format!("<Code>{code}</Code>")), "{body}");
        assert!(body.contains("<Message>"), "{body}");
        assert!(!body.contains("secret"), "{body}");
    }
}

#[test]
fn replies_carry_details_resource_and_request_id() {
    let (_, body) = finished(from_store(StoreError::InvalidPart(7)));

    assert!(body.contains("<PartNumber>7</PartNumber>"), "{body}");
    assert!(body.contains("<Resource>/b/a&amp;b</Resource>"), "{body}");
    assert!(body.contains("<RequestId>0123</RequestId>"), "{body}");
}

#[test]
fn a_code_without_text_gets_the_standard_one() {
    let (_, body) = finished(S3Error::new(S3ErrorCode::SignatureDoesNotMatch));

    assert!(
        body.contains("<Message>The request signature we calculated"),
        "{body}"
    );
}

#[test]
fn a_304_has_no_body() {
    let mut response = code(S3ErrorCode::NotModified).to_http_response().unwrap();
    reply::finish(&mut response, "/b/k", "1");

    assert_eq!(response.status(), 304);
    assert!(response.body().bytes().is_none_or(|body| body.is_empty()));
    assert!(response.headers().get("content-type").is_none());
}

#[test]
fn other_replies_are_left_alone() {
    let mut response = http::Response::new(Body::from("<Error>".to_owned()));
    reply::finish(&mut response, "/", "1");

    assert_eq!(response.body_mut().take_bytes().unwrap(), "<Error>");
}

#[test]
fn details_cannot_break_the_xml() {
    let (_, body) = finished(invalid_argument("a", "<\u{1}>", "no"));

    assert!(
        body.contains("<ArgumentValue>&lt;\u{fffd}&gt;</ArgumentValue>"),
        "{body}"
    );
}

#[test]
fn body_failures_are_told_apart() {
    for (text, code) in [
        (
            "UploadStreamError: Sha256Mismatch",
            "XAmzContentSHA256Mismatch",
        ),
        (
            "AwsChunkedStreamError: SignatureMismatch",
            "SignatureDoesNotMatch",
        ),
        ("AwsChunkedStreamError: Incomplete", "IncompleteBody"),
        ("connection reset", "IncompleteBody"),
    ] {
        assert_eq!(from_body(text.into()).code().as_str(), code, "{text}");
    }
    assert_eq!(
        from_body("Sha256Mismatch".into()).status_code(),
        Some(StatusCode::BAD_REQUEST)
    );
}

#[test]
fn what_s3s_says_of_other_requests_is_put_in_the_words_of_s3() {
    let error = S3Error::with_message(S3ErrorCode::NotImplemented, "Unknown operation");
    let (status, body) = finished(error);
    assert_eq!(status, 405);
    assert!(body.contains("<Code>MethodNotAllowed</Code>"), "{body}");

    let text = "PutBucketCors is not implemented yet";
    let (status, body) = finished(S3Error::with_message(S3ErrorCode::NotImplemented, text));
    assert_eq!(status, 501);
    assert!(
        body.contains("<Message>A header you provided implies"),
        "{body}"
    );
}

#[test]
fn policies_of_forms_are_refused_in_the_words_of_s3() {
    for (said, expected) in [
        (
            "Request has expired",
            "Invalid according to Policy: Policy expired.",
        ),
        (
            "Each form field that you specify in a form must appear in the list of policy conditions. \"bucket\" not specified in the policy.",
            "Invalid according to Policy: Extra input fields: bucket",
        ),
    ] {
        let (_, body) = finished(S3Error::with_message(S3ErrorCode::AccessDenied, said));
        assert!(
            body.contains(&format!("<Message>{expected}</Message>")),
            "{body}"
        );
    }
}
