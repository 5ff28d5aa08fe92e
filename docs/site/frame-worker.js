// The search runs in a worker, and pages that are opened from `file:` may not start workers. This
// runs the worker's script in a hidden frame instead. It takes the place of the `iframe-worker`
// that Material for MkDocs would load from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = new URL(url, location);
      this.loaded = new Promise((done) => { script.onload = done; });
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
