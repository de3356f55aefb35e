//! Who may change what.
//!
//! Reading is open unless configured otherwise; changing needs an identity:
//! the name in a client certificate, a bearer token, or the same user at the
//! other end of the Unix socket.

use super::layers::request_id::RequestId;
use super::listen::Peer;
use super::metrics::Metrics;
use super::status::with_reason;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::{Code, Extensions, Status, metadata::MetadataMap};

/// Who may do what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Certificate names that may change things.
    pub(crate) names: Vec<String>,
    /// A file with tokens that may, one a line.
    pub(crate) tokens: Option<PathBuf>,
    /// The user whose processes may, over the Unix socket.
    pub(crate) uid: Option<u32>,
    /// Whether reading needs the same.
    pub(crate) reading: bool,
}

impl Access {
    /// Refuses a caller that may not change things.
    pub(crate) fn changing<T>(
        &self,
        request: &tonic::Request<T>,
        method: &str,
        metrics: &Metrics,
    ) -> Result<(), Status> {
        self.check(request.extensions(), request.metadata(), method, metrics)
    }

    /// Refuses a caller that may not read, where that is configured.
    pub(crate) fn reading<T>(
        &self,
        request: &tonic::Request<T>,
        method: &str,
        metrics: &Metrics,
    ) -> Result<(), Status> {
        if self.reading {
            self.check(request.extensions(), request.metadata(), method, metrics)
        } else {
            Ok(())
        }
    }

    fn check(
        &self,
        extensions: &Extensions,
        metadata: &MetadataMap,
        method: &str,
        metrics: &Metrics,
    ) -> Result<(), Status> {
        let peer = extensions.get::<Arc<Peer>>().map(|p| &**p);
        if self.knows(peer) || self.holds_token(metadata) {
            return Ok(());
        }
        metrics.refused(method);
        let request_id = extensions
            .get::<RequestId>()
            .and_then(|id| id.0.to_str().ok())
            .unwrap_or_default();
        tracing::warn!(method, request_id, ?peer, "refused: no allowed identity");
        Err(with_reason(
            Code::PermissionDenied,
            "NOT_ALLOWED",
            format!(
                "{method} needs an allowed identity: a client certificate named in `--allow-name`, a bearer token from `--token-file`, or the Unix socket of the same user"
            ),
        ))
    }

    fn knows(&self, peer: Option<&Peer>) -> bool {
        match peer {
            Some(Peer::Unix { uid, .. }) => self.uid == Some(*uid),
            Some(Peer::Tls(_, Some(certificate))) => {
                let has = |name: &String| self.names.contains(name);
                certificate.cn.iter().any(has)
                    || certificate.dns.iter().any(has)
                    || certificate.uri.iter().any(has)
            }
            _ => false,
        }
    }

    /// The file is read for every such call: tokens change, changes are rare.
    fn holds_token(&self, metadata: &MetadataMap) -> bool {
        let Some(file) = &self.tokens else {
            return false;
        };
        let given = metadata
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let Some(given) = given.map(str::trim).filter(|t| !t.is_empty()) else {
            return false;
        };
        match std::fs::read_to_string(file) {
            Ok(tokens) => tokens.lines().any(|token| same(token.trim(), given)),
            Err(error) => {
                tracing::error!(file = %file.display(), %error, "the token file cannot be read");
                false
            }
        }
    }
}

/// Compares without telling by the time it takes how much is right.
fn same(a: &str, b: &str) -> bool {
    let differs = |(x, y): (u8, u8)| x ^ y;
    !a.is_empty()
        && a.len() == b.len()
        && a.bytes()
            .zip(b.bytes())
            .map(differs)
            .fold(0, |all, d| all | d)
            == 0
}
