//! Variables of whoever builds that reach a job, here and in a container: they say where packages come from and how they are reached.

/// What they hold may be secret: it is given on in environments only, never on a command line.
pub(crate) const NETWORK: [&str; 23] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_OFFLINE",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_INSECURE_HOST",
];

/// They name a file or a folder, which a container has to see too.
pub(crate) const FILES: [&str; 7] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "UV_CONFIG_FILE",
];
