//! The certificate that clients are answered with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretReference;

/// HTTPS instead of HTTP on the S3 port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSpec {
    /// Secret of type `kubernetes.io/tls`, as cert-manager makes it: `tls.crt` (the certificate,
    /// then those between it and its authority) and `tls.key`, both PEM. A renewed one is taken
    /// over without a restart; engine `versitygw` is started again for it.
    pub secret_ref: SecretReference,
}
