//! `[upstream]`.

use std::net::SocketAddr;
use std::path::PathBuf;

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

    pub(super) fn upstream(
        &mut self,
        raw: &raw::Upstream,
        listen: Option<SocketAddr>,
    ) -> Option<Upstream> {
        let url = self.url("upstream.url", &raw.url);
        if let (Some((origin, _)), Some(listen)) = (&url, listen)
            && is_same_place(origin, listen)
        {
            self.fail(
                "upstream.url",
                format_args!(
                    "{} is Baler's own listener: requests would go round in circles",
                    raw.url
                ),
            );
        }
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
