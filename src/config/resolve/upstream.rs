//! `[upstream]`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::resolve::check::{Check, is_same_place};
use crate::config::{Upstream, raw};

impl Check<'_> {
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
