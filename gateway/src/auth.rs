//! Who may do what: access keys for s3s, and what is refused before s3s sees it.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use percent_encoding::percent_decode_str;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::access::{Accounts, Action, Principal, Rule, rule};
use crate::context::RequestContext;
use crate::host::Hosts;
use crate::s3;

/// Secrets for s3s's signature check.
pub(crate) struct KeyAuth(pub(crate) Arc<Accounts>);

#[async_trait::async_trait]
impl S3Auth for KeyAuth {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let attempt = RequestContext::with(RequestContext::attempt).unwrap_or(0);
        let Some((secret, more, principal)) = self.0.secret(access_key, attempt) else {
            let mut error = S3Error::with_message(
                S3ErrorCode::InvalidAccessKeyId,
                "The AWS Access Key Id you provided does not exist in our records.",
            );
            s3::add_error_detail(&mut error, "AWSAccessKeyId", access_key);
            return Err(error);
        };
        RequestContext::with(|context| {
            context.set_more_secrets(more);
            context.set_claimed(principal);
        });
        Ok(SecretKey::from(secret.expose()))
    }
}

/// Lets in who signed, to what that one may do. Also where the operation's name is first known.
pub(crate) struct KeyHolders;

#[async_trait::async_trait]
impl S3Access for KeyHolders {
    async fn check(&self, access: &mut S3AccessContext<'_>) -> S3Result<()> {
        if access.credentials().is_some() {
            signature_is_right();
        }
        check_operation(access)
    }
}

/// Makes who claims to have signed the request its principal: the signature was verified.
pub(crate) fn signature_is_right() {
    RequestContext::with(RequestContext::set_principal_as_claimed);
}

/// Applies the rule of the operation ([`rule`]).
///
/// # Errors
/// `AccessDenied`.
pub(crate) fn check_operation(access: &S3AccessContext<'_>) -> S3Result<()> {
    let operation = access.s3_op().name();
    RequestContext::with(|context| context.set_operation(operation));
    let path = access.s3_path();
    let bucket = path.get_bucket_name().unwrap_or_default();
    match rule(operation) {
        Rule::Path(action) => check(action, bucket, path.get_object_key().unwrap_or_default()),
        Rule::Within => check(Action::See, bucket, ""),
        Rule::Anybody if principal().is_some() => Ok(()),
        Rule::Anybody => Err(denied()),
    }
}

/// Who signed the request that the calling task serves, once that is verified.
pub(crate) fn principal() -> Option<Principal> {
    RequestContext::with(RequestContext::principal).flatten()
}

/// Whether the request's principal may do this ([`Principal::may`]).
///
/// # Errors
/// `AccessDenied`, also without a verified signature.
pub(crate) fn check(action: Action, bucket: &str, name: &str) -> S3Result<()> {
    match principal() {
        Some(principal) if principal.may(action, bucket, name) => Ok(()),
        _ => Err(denied()),
    }
}

/// The answer to what is not allowed.
pub(crate) fn denied() -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, "Access Denied.")
}

/// Refuses what s3s would take although it should not.
///
/// - Signature version 2, in the header or the query: s3s compares it in variable time.
/// - A slash hidden as `%2F` where a bucket's name ends: s3s decodes the path before it looks for
///   the bucket, so that `/bucket%2Fkey` would be read as an object of `bucket`.
pub(crate) fn refuse(head: &Parts, hosts: &Hosts) -> Option<S3Error> {
    if has_signature_v2(head) {
        return Some(signature_v2());
    }
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let virtual_host = host.is_some_and(|host| hosts.bucket(host).is_some());
    let path = head.uri.path().trim_start_matches('/');
    let bucket = path.split('/').next().unwrap_or_default();
    if !virtual_host && bucket.to_ascii_lowercase().contains("%2f") {
        return Some(S3Error::with_message(
            S3ErrorCode::InvalidBucketName,
            "The specified bucket is not valid.",
        ));
    }
    None
}

/// The answer to a signature of version 2.
pub(crate) fn signature_v2() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::InvalidRequest,
        "The authorization mechanism you have provided is not supported. \
         Please use AWS4-HMAC-SHA256.",
    )
}

fn has_signature_v2(head: &Parts) -> bool {
    let header = head.headers.get_all(AUTHORIZATION).iter().any(|value| {
        let value = value.as_bytes().trim_ascii_start();
        value
            .get(..4)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"AWS "))
    });
    header
        || head.uri.query().unwrap_or_default().split('&').any(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            let name: Cow<'_, [u8]> = percent_decode_str(name).into();
            matches!(&*name, b"Signature" | b"AWSAccessKeyId")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let hosts = Hosts::new(&["s3.test".to_owned()]);
        refuse(&head, &hosts).map(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn signature_version_2_is_refused_in_every_form() {
        for uri in [
            "/b/k?AWSAccessKeyId=a&Signature=b&Expires=1",
            "/b/k?x=1&%53ignature=b",
            "/b/k?AWSAccessKeyI%64=a",
        ] {
            assert_eq!(
                refused(uri, &[]).as_deref(),
                Some("InvalidRequest"),
                "{uri}"
            );
        }
        for header in ["AWS key:sig", "  aws key:sig"] {
            assert_eq!(
                refused("/b", &[("authorization", header)]).as_deref(),
                Some("InvalidRequest")
            );
        }
        let v4 = [("authorization", "AWS4-HMAC-SHA256 Credential=a")];
        assert_eq!(refused("/b/Signature?X-Amz-Signature=1", &v4), None);
    }

    #[test]
    fn an_encoded_slash_never_ends_a_bucket_name() {
        for uri in ["/bucket%2Fkey", "/bucket%2fkey/more", "//b%2Fc"] {
            assert_eq!(
                refused(uri, &[]).as_deref(),
                Some("InvalidBucketName"),
                "{uri}"
            );
        }
        assert_eq!(refused("/bucket/a%2Fb", &[]), None);
        assert_eq!(refused("/a%2Fb", &[("host", "bucket.s3.test")]), None);
    }
}
