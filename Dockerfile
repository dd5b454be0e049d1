# trainglass as a sidecar: the page for jobs whose shared memory it is given, read-only.
#   docker build -t trainglass .
#   docker run --user $(id -u):$(id -g) --ipc=host --network=host trainglass
#   docker run --user $(id -u):$(id -g) --ipc=container:TRAINER -p 8080:8080 trainglass
ARG SUITE=bookworm

FROM debian:${SUITE}-slim AS build
COPY .ci/packages.sh /src/.ci/packages.sh
RUN bash -ec '. /src/.ci/packages.sh; install_missing $BUILD_PACKAGES nodejs npm ca-certificates'
COPY . /src
RUN rm -rf /src/build && /src/run.sh --build && \
    cmake --install /src/build --prefix /out --strip

FROM debian:${SUITE}-slim
RUN apt-get update -qq && \
    apt-get install -qq -y --no-install-recommends libcivetweb1 libcjson1 libinih1 libisal2 libsqlite3-0 zlib1g >/dev/null && \
    rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /usr/share/doc/* /usr/share/man/*
COPY --from=build /out /usr/local
# Any uid may be chosen with --user: the job's, so that its segments can be read.
RUN mkdir -m 1777 /state
ENV TRAINGLASS_STATE_DIR=/state TRAINGLASS_BIND=auto
VOLUME /state
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=3s --start-period=5s CMD ["trainglass", "serve", "--check"]
ENTRYPOINT ["trainglass"]
CMD ["serve"]
