# The tag is the oldest Rust that Cargo.toml allows, on the Debian of the final image: both have the same C library. For layers that
# can be built again to the byte, name both by digest: deploy/README.md says how.
ARG BUILD_IMAGE=rust:1.95-slim-bookworm
ARG FINAL_IMAGE=gcr.io/distroless/cc-debian12:nonroot
FROM ${BUILD_IMAGE} AS build
WORKDIR /baler

# The dependencies on their own: this layer lasts until one of these two files changes. What was built of the stub
# itself is taken away, for its files may look newer than the real ones.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
    && echo 'fn main() {}' > src/main.rs \
    && touch src/lib.rs \
    && cargo build --release --locked \
    && cargo clean --release --locked --package baler \
    && rm -r src

COPY src src
COPY config/summarize.md config/summarize.md
RUN cargo build --release --locked

# What is inside, by the lock file: CycloneDX.
COPY deploy/sbom deploy/sbom
RUN deploy/sbom <Cargo.lock >/baler.cdx.json

# The binary contains the dependencies, and most of their licences ask to come along.
WORKDIR /usr/local/cargo/registry/src
RUN mkdir /licenses \
    && find . -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) ! -name '*.rs' \
        -exec cp --parents --target-directory=/licenses {} +

# No shell and no package manager: the program itself asks for its health.
FROM ${FINAL_IMAGE}
# docker build --build-arg VERSION=... --build-arg REVISION="$(git rev-parse HEAD)" --tag baler .
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="baler" \
      org.opencontainers.image.description="A sidecar proxy that keeps long LLM conversations inside the context window" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Baler developers" \
      org.opencontainers.image.documentation="/usr/share/doc/baler" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY LICENSE /usr/share/doc/baler/LICENSE
COPY --from=build /licenses /usr/share/doc/baler/third-party
COPY --from=build /baler.cdx.json /usr/share/doc/baler/baler.cdx.json
COPY --from=build /baler/target/release/baler /usr/local/bin/baler
# By number, or runAsNonRoot could not tell that it is not root.
USER 65532:65532
# 4141 for applications, 4142 for probes and Prometheus. Both listen on loopback, as a sidecar's data port should;
# BALER_LISTEN__ADDRESS and BALER_ADMIN__ADDRESS open them.
EXPOSE 4141 4142
# Kubernetes has probes of its own and passes over this. Where a file sets admin.address, name the file by BALER_CONFIG.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/usr/local/bin/baler", "probe"]
ENTRYPOINT ["/usr/local/bin/baler"]
