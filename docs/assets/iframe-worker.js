// Browsers start no worker for a page opened from disk, so there the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        this.frame.onload = () => {
          const { contentWindow: inside, contentDocument: page } = this.frame;
          inside.postMessage = (data) =>
            this.dispatchEvent(new MessageEvent("message", { data }));
          const script = page.createElement("script");
          script.onload = () => resolve(inside);
          script.src = url;
          page.head.append(script);
        };
      });
      document.body.append(this.frame);
    }

    async postMessage(data) {
      (await this.ready).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
