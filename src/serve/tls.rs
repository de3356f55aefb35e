//! TLS with reload: the whole `ServerConfig` is swapped, so that certificate and client CA change
//! together and no session of the old CA is resumed.
use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// Asks for (and insists on) a client certificate when set.
    pub(crate) client_ca: Option<PathBuf>,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(PartialEq, Eq, Clone)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    ca: Option<Vec<u8>>,
}

impl TlsFiles {
    fn read(&self) -> std::io::Result<Contents> {
        Ok(Contents {
            cert: std::fs::read(&self.cert)?,
            key: std::fs::read(&self.key)?,
            ca: self.client_ca.as_ref().map(std::fs::read).transpose()?,
        })
    }
}

fn config(c: &Contents) -> Result<ServerConfig, Error> {
    let chain = CertificateDer::pem_slice_iter(&c.cert).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&c.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match &c.ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for ca in CertificateDer::pem_slice_iter(pem) {
                roots.add(ca?)?;
            }
            builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?,
            )
        }
    };
    // Fails with InconsistentKeys when cert and key are from two sides of a swap.
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

pub(crate) struct Tls {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    pub(crate) fn load(files: TlsFiles) -> Result<(Arc<Self>, Reloader), Error> {
        let seen = files.read()?;
        let config = ArcSwap::from_pointee(config(&seen)?);
        let tls = Arc::new(Self { files, config });
        Ok((tls.clone(), Reloader { tls, seen }))
    }
    /// The configuration for the next handshake.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}

pub(crate) struct Reloader {
    tls: Arc<Tls>,
    seen: Contents,
}

impl Reloader {
    /// Ok(true) when a new configuration is in force; on Err the old one stays.
    pub(crate) fn check(&mut self) -> Result<bool, Error> {
        // By contents, not mtime: a secret's `..data` link swap changes neither link's own time
        // for the path we know, and three small files cost nothing to read.
        let now = self.tls.files.read()?;
        if now == self.seen {
            return Ok(false);
        }
        let config = config(&now)?; // a half-written set fails here; tried again next tick
        if self.tls.files.read()? != now {
            return Ok(false); // swapped between the reads
        }
        self.tls.config.store(Arc::new(config));
        self.seen = now;
        Ok(true)
    }

    pub(crate) async fn run(mut self, every: Duration) {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            match self.check() {
                Ok(true) => tracing::info!("took new TLS certificates"),
                Ok(false) => {}
                Err(e) => tracing::warn!(error = %e, "kept the old TLS certificates"),
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCert {
    pub(crate) cn: Option<String>,
    pub(crate) dns: Vec<String>,
    pub(crate) uri: Vec<String>,
}

pub(crate) fn peer_cert(der: &[u8]) -> Option<PeerCert> {
    use x509_parser::prelude::*;
    let (_, cert) = X509Certificate::from_der(der).ok()?;
    let cn = cert
        .subject()
        .iter_common_name()
        .next()
        .and_then(|a| a.as_str().ok())
        .map(str::to_owned);
    let (mut dns, mut uri) = (vec![], vec![]);
    if let Ok(Some(san)) = cert.subject_alternative_name() {
        for name in &san.value.general_names {
            match name {
                GeneralName::DNSName(d) => dns.push((*d).to_owned()),
                GeneralName::URI(u) => uri.push((*u).to_owned()),
                _ => {}
            }
        }
    }
    Some(PeerCert { cn, dns, uri })
}
