//! Which certificates of the upstream are trusted: those of public authorities, and those of
//! `upstream.ca_file`.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::config;

/// The configuration of TLS towards the upstream.
///
/// # Errors
/// When `upstream.ca_file` cannot be read or contains no certificate.
pub(super) fn tls_config(config: &config::Upstream) -> io::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let named = named(config)?;
    let (added, _) = roots.add_parsable_certificates(named.iter().cloned());
    if let (Some(file), 0) = (&config.ca_file, added) {
        let problem = format!(
            "upstream.ca_file {}: contains no certificate",
            file.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    if named.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(io::Error::other)?;
    let verifier = Arc::new(Verifier { authorities, named });
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// The certificates of `upstream.ca_file`.
fn named(config: &config::Upstream) -> io::Result<Vec<CertificateDer<'static>>> {
    let Some(file) = &config.ca_file else {
        return Ok(Vec::new());
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| {
        let problem = format!("upstream.ca_file {}: {error}", file.display());
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })?;
    Ok(certificates.filter_map(Result::ok).collect())
}

/// Verifies as usual, with one exception: a certificate that is itself in `upstream.ca_file` may be
/// the server's own although it says that it is an authority's. `openssl req -x509` makes such
/// ones, and servers of one's own mostly have them.
#[derive(Debug)]
struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    // INVARIANT: the trait of rustls has these parameters.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(error) if is_authoritys(&error) && self.named.contains(end_entity) => {
                // INVARIANT: the time of the certificate was checked before that it is an
                // authority's; the name is what is left. The handshake proves that the server
                // has the key.
                let certificate = ParsedCertificate::try_from(end_entity)?;
                verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether a certificate was refused only because it is an authority's.
fn is_authoritys(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) = error else {
        return false;
    };
    let reason = reason.downcast_ref::<webpki::Error>();
    reason == Some(&webpki::Error::CaUsedAsEndEntity)
}
