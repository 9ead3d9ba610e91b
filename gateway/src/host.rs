//! Virtual-host style: `<bucket>.<domain>` names a bucket, any other host is path style.

use std::borrow::Cow;

use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// The domains that buckets are below.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    domains: Vec<String>,
}

impl Hosts {
    /// Domains without port; letter case and dots around them do not matter.
    pub(crate) fn new(domains: &[String]) -> Self {
        let domains = domains
            .iter()
            .map(|domain| domain.trim_matches('.').to_ascii_lowercase())
            .filter(|domain| !domain.is_empty())
            .collect();
        Self { domains }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// The bucket that a `Host` header names.
    pub(crate) fn bucket<'a>(&self, host: &'a str) -> Option<Cow<'a, str>> {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        self.domains.iter().find_map(|domain| {
            let at = name.len().checked_sub(domain.len() + 1)?;
            let (bucket, rest) = (name.get(..at)?, name.get(at..)?);
            let matches = rest.strip_prefix('.')?.eq_ignore_ascii_case(domain);
            (matches && !bucket.is_empty()).then(|| {
                if bucket.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    Cow::Owned(bucket.to_ascii_lowercase())
                } else {
                    Cow::Borrowed(bucket)
                }
            })
        })
    }
}

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let virtual_host = VirtualHost::new(host);
        Ok(match self.bucket(host) {
            Some(bucket) => virtual_host.with_bucket(bucket),
            None => virtual_host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_subdomains_of_a_domain_name_a_bucket() {
        let hosts = Hosts::new(&["s3.example.com".to_owned(), ".minio.svc".to_owned()]);
        let bucket = |host| hosts.bucket(host).map(Cow::into_owned);

        assert_eq!(bucket("data.s3.example.com").as_deref(), Some("data"));
        assert_eq!(bucket("a.b.S3.Example.com:9000").as_deref(), Some("a.b"));
        assert_eq!(bucket("Data.minio.svc:80").as_deref(), Some("data"));
        for path_style in [
            "s3.example.com",
            "s3.example.com:9000",
            ".s3.example.com",
            "xs3.example.com",
            "minio:9000",
            "[::1]:9000",
            "ryax-minio.ryax.svc",
            "é.example.com",
        ] {
            assert_eq!(bucket(path_style), None, "{path_style}");
        }
    }
}
