# syntax=docker/dockerfile:1
# The image of the manager: one program, certificates of authorities, no shell. docker build --tag localhost/capa-rs .
ARG RUST_VERSION=1.95.0
ARG RUNTIME=gcr.io/distroless/cc-debian12:nonroot

FROM rust:${RUST_VERSION}-bookworm AS build
WORKDIR /source
COPY . .
# The program is copied out of the cache, which is no part of the layer. Cargo goes by the age of files, and the cache
# may have been filled from another checkout whose files are newer.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    find . -path ./target -prune -o -type f -exec touch {} + \
    && cargo build --release --locked --package capa-rs --bin capa-rs \
    && cp target/release/capa-rs /capa-rs

FROM ${RUNTIME}
COPY --from=build /capa-rs /capa-rs
USER 65532:65532
ENTRYPOINT ["/capa-rs"]
