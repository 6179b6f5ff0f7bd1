//! `[upstream]`.

use std::net::SocketAddr;
use std::path::PathBuf;

use hyper::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::resolve::check::{Check, is_same_place};
use crate::config::{Upstream, raw};

impl Check<'_> {
    /// A PEM file with one certificate at least.
    fn certificates(&mut self, key: &str, file: &str) {
        match CertificateDer::pem_file_iter(file) {
            Err(error) => self.fail(key, format_args!("\"{file}\" cannot be read: {error}")),
            Ok(mut certificates) => {
                if !certificates.any(|certificate| certificate.is_ok()) {
                    self.fail(key, format_args!("\"{file}\" contains no certificate"));
                }
            }
        }
    }

    /// Refuses an upstream that is Baler itself: its listener for applications, or that for probes.
    /// The variable that the application takes its base URL from is read by Baler as well.
    pub(super) fn no_loop(
        &mut self,
        origin: &Uri,
        [listen, admin]: [Option<SocketAddr>; 2],
        of_openai: bool,
    ) {
        let is_at = |own: Option<SocketAddr>| own.is_some_and(|own| is_same_place(origin, own));
        let whose = if is_at(listen) {
            "listener: requests would go round in circles"
        } else if is_at(admin) {
            "port for probes and metrics, which forwards nothing"
        } else {
            return;
        };
        let way_out = if of_openai {
            "unset OPENAI_BASE_URL for Baler, or give --upstream"
        } else {
            "name the API's own address"
        };
        self.fail(
            "upstream.url",
            format_args!("{origin} is Baler's own {whose}; {way_out}"),
        );
    }

    pub(super) fn upstream(&mut self, raw: &raw::Upstream) -> Option<Upstream> {
        let url = self.url("upstream.url", &raw.url);
        self.longer_than_nothing("upstream.connect_timeout", raw.connect_timeout);
        self.longer_than_nothing("upstream.response_timeout", raw.response_timeout);
        self.longer_than_nothing("upstream.idle_timeout", raw.idle_timeout);
        let mut usage_headers = Vec::with_capacity(raw.usage_headers.len());
        for (at, name) in raw.usage_headers.iter().enumerate() {
            usage_headers.extend(self.header_name(&format!("upstream.usage_headers.{at}"), name));
        }
        if let Some(file) = &raw.ca_file {
            self.certificates("upstream.ca_file", file);
        }
        let (origin, base_path) = url?;
        Some(Upstream {
            origin,
            base_path,
            ca_file: raw.ca_file.as_ref().map(PathBuf::from),
            http2: raw.http2,
            discover_windows: raw.discover_windows,
            connect_timeout: raw.connect_timeout,
            response_timeout: raw.response_timeout,
            idle_timeout: raw.idle_timeout,
            usage_headers,
        })
    }
}
