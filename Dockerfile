# Copyright The Lockstead Authors.
# SPDX-License-Identifier: Apache-2.0

# The operator's image: one static program and nothing else, so it needs no base image and no registry to build.
# `make image` builds the program into bin/ first.
FROM scratch
COPY bin/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
