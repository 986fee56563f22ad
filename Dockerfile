# An image with Mailroom and nothing else: the program needs no library, no shell and no root.
#
#	docker build -t mailroom .
#	docker run -d --name mailroom -v mailroom:/data mailroom    # the daemon of /data/mailroom.db
#	docker exec mailroom mailroom status                        # any other command
#
# It is built from a git clone with its history, from whose tags the version comes.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
RUN make dist ARCHES="$(go env GOARCH)" SYSTEMS= && \
    mkdir -p /unpacked /image/usr/bin /image/usr/share/doc/mailroom /image/etc/ssl/certs /image/tmp /owned/data && \
    chmod 1777 /image/tmp && \
    cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ && \
    tar -xzf dist/mailroom_*_linux_*.tar.gz -C /unpacked --strip-components 1 && \
    cp /unpacked/mailroom /image/usr/bin/ && \
    cp /unpacked/COPYRIGHT /image/usr/share/doc/mailroom/

FROM scratch
COPY --from=build /image/ /
COPY --from=build --chown=1000:1000 /owned/ /
USER 1000:1000
ENV HOME=/data MAILROOM_DB=/data/mailroom.db
VOLUME /data
WORKDIR /data
ENTRYPOINT ["/usr/bin/mailroom"]
CMD ["serve"]
