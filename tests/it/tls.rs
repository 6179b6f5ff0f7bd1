//! Upstreams over TLS, and over HTTP/2.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baler::config::{Problems, Sources, load};
use http_body_util::Full;
use hyper::Response;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;

use crate::support::Baler;
use crate::support::message;
use crate::support::request;
use crate::support::within;

/// A certificate for localhost that vouches for itself, and its key. As an authority's it is what
/// `openssl req -x509` makes.
fn certified(is_authority: bool) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    if is_authority {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let signing_key = rcgen::KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    rcgen::CertifiedKey { cert, signing_key }
}

/// An upstream that speaks TLS with a certificate of its own, perhaps an authority's; returns its
/// port and the certificate's file.
pub async fn self_signed(is_authority: bool) -> (u16, tempfile::NamedTempFile) {
    let (port, file, _) = secure_upstream(false, &certified(is_authority)).await;
    (port, file)
}

/// An upstream that speaks TLS with this certificate; returns its port, the certificate's file, and
/// the connections that were made.
async fn secure_upstream(
    http2: bool,
    certified: &rcgen::CertifiedKey<rcgen::KeyPair>,
) -> (u16, tempfile::NamedTempFile, Arc<AtomicUsize>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certified.cert.pem()).unwrap();
    let certificate = CertificateDer::from_pem_slice(certified.cert.pem().as_bytes()).unwrap();
    let key =
        PrivateKeyDer::from_pem_slice(certified.signing_key.serialize_pem().as_bytes()).unwrap();
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap();
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![if http2 {
        b"h2".to_vec()
    } else {
        b"http/1.1".to_vec()
    }];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let made = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, made) = (acceptor.clone(), Arc::clone(&made));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                made.fetch_add(1, Ordering::Relaxed);
                let service = service_fn(
                    |request: hyper::Request<hyper::body::Incoming>| async move {
                        let body = format!(
                            "{{\"version\":\"{:?}\",\"path\":\"{}\"}}",
                            request.version(),
                            request.uri().path()
                        );
                        Ok::<_, std::convert::Infallible>(Response::new(Full::new(
                            bytes::Bytes::from(body),
                        )))
                    },
                );
                let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    (port, file, connections)
}

#[tokio::test]
async fn an_https_upstream_is_trusted_by_its_certificate_and_only_by_that() {
    let (port, ca) = self_signed(false).await;
    let url = format!("https://localhost:{port}/v1");
    let body = request(&[message("user", "hi")]);
    let trusting = Baler::start_for(&format!("upstream.ca_file = {:?}", ca.path()), &url).await;
    let answer = trusting.chat(&body).await;
    assert_eq!(
        (answer.status, answer.json()["version"].as_str()),
        (200, Some("HTTP/1.1"))
    );
    let strange = Baler::start_for("", &url).await;
    let answer = strange.chat(&body).await;
    assert_eq!(
        (answer.status, answer.header("x-baler-error")),
        (502, "upstream_unreachable_tls")
    );
}

#[tokio::test]
async fn a_certificate_that_vouches_for_itself_is_trusted_where_the_file_has_it() {
    let (port, certificate) = self_signed(true).await;
    let (_, other) = self_signed(true).await;
    let body = request(&[message("user", "hi")]);
    for (file, host, status) in [
        (&certificate, "localhost", 200),
        (&other, "localhost", 502),
        // The name counts as it does for any other certificate.
        (&certificate, "127.0.0.1", 502),
    ] {
        let toml = format!("upstream.ca_file = {:?}", file.path());
        let baler = Baler::start_for(&toml, &format!("https://{host}:{port}/v1")).await;
        let answer = baler.chat(&body).await;
        assert_eq!(answer.status, status, "{host}");
    }
}

#[tokio::test]
async fn http2_upstreams_are_spoken_to_without_waiting_for_streams() {
    let (port, ca, connections) = secure_upstream(true, &certified(false)).await;
    let toml = format!("upstream.ca_file = {:?}\nupstream.http2 = true", ca.path());
    let baler = Baler::start_for(&toml, &format!("https://localhost:{port}/base/v1")).await;
    let body = request(&[message("user", "hi")]);
    let answers = futures_util::future::join_all((0..250).map(|_| baler.chat(&body)));
    for answer in within(answers).await {
        assert_eq!(
            (answer.status, answer.json()["version"].as_str()),
            (200, Some("HTTP/2.0"))
        );
        assert_eq!(answer.json()["path"], "/base/v1/chat/completions");
    }
    assert!(
        connections.load(Ordering::Relaxed) < 100,
        "requests share connections"
    );
}

#[test]
fn certificates_that_cannot_be_read_are_an_error_at_the_start() {
    for content in ["", "nonsense"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let path = file.path().to_string_lossy().into_owned();
        let sources = Sources {
            env: BTreeMap::from([("BALER_UPSTREAM__CA_FILE".to_owned(), path)]),
            ..Sources::default()
        };
        let Problems(problems) = load(&sources).unwrap_err();
        assert_eq!(problems[0].key, "upstream.ca_file");
    }
}
