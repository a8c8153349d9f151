// Browsers start no worker for a page that was opened as a file. This one runs the script of the worker in a
// hidden frame instead, so that the search works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      const begin = () => {
        document.body.appendChild(frame)
        this.scope = frame.contentWindow
        // The worker posts to its own scope; what it posts arrives here.
        this.scope.postMessage = data => {
          const event = new MessageEvent("message", { data })
          this.dispatchEvent(event)
          if (this.onmessage) this.onmessage(event)
        }
        this.scope.importScripts = async (...urls) => {
          for (const each of urls) await this.load(new URL(each, url))
        }
        this.load(url).then(() => {
          this.ready = true
          for (const data of this.waiting) this.deliver(data)
        })
      }
      if (document.body) begin()
      else addEventListener("DOMContentLoaded", begin)
    }

    load(url) {
      return new Promise((loaded, failed) => {
        const script = this.scope.document.createElement("script")
        script.src = url
        script.onload = loaded
        script.onerror = failed
        this.scope.document.body.appendChild(script)
      })
    }

    deliver(data) {
      this.scope.dispatchEvent(new MessageEvent("message", { data }))
    }

    postMessage(data) {
      if (this.ready) this.deliver(data)
      else this.waiting.push(data)
    }

    terminate() {}
  }
}
