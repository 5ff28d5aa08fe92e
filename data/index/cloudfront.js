// A package index that `rocwheel index build` made, in a bucket behind CloudFront: a function of the
// runtime cloudfront-js-2.0. Associate it with viewer requests, and with viewer responses as well.
//
// The function runs before the cache is asked, so the cache key does not need `Accept`. The types of
// pages are those with which they were uploaded; docs/index-servers.md has the commands.

// Folders with a page for `--find-links`, which is in HTML only.
var HTML_ONLY = ["/"];

// The page of a folder. The first form that the client names wins, JSON before HTML: weights
// (`q=0.1`) are not compared.
function pageOf(uri, accept) {
    if (HTML_ONLY.indexOf(uri) < 0) {
        if (/application\/vnd\.pypi\.simple\.(v1|latest)\+json/i.test(accept)) {
            return 'index.v1_json';
        }
        if (/application\/vnd\.pypi\.simple\.(v1|latest)\+html/i.test(accept)) {
            return 'index.v1_html';
        }
    }
    return 'index.html';
}

// All values of a header; one that was sent several times has `multiValue`.
function valuesOf(header) {
    if (!header) {
        return '';
    }
    return (header.multiValue || [header]).map(function (one) { return one.value; }).join(', ');
}

function handler(event) {
    var request = event.request;
    var uri = request.uri;
    if (event.context.eventType === 'viewer-response') {
        if (/\/(index\.[a-z0-9_]+)?$/.test(uri)) {
            event.response.headers.vary = { value: 'Accept, Accept-Encoding' };
        }
        return event.response;
    }
    // What rocwheel keeps for itself.
    if (/\/(\.|%2e)/i.test(uri)) {
        return { statusCode: 404, statusDescription: 'Not Found' };
    }
    // A folder named without its `/`: every file has a dot in its name.
    if (/^(\/[A-Za-z0-9_-]+)+$/.test(uri)) {
        return {
            statusCode: 301,
            statusDescription: 'Moved Permanently',
            headers: { location: { value: uri + '/' } }
        };
    }
    if (uri.charAt(uri.length - 1) === '/') {
        request.uri = uri + pageOf(uri, valuesOf(request.headers.accept));
    }
    return request;
}
