// The search reads "-" before a word as "without this word", and two of them as an error. In these pages it is
// a flag of the command line: --reload.
window.Worker = class extends window.Worker {
  postMessage(message, ...others) {
    const query = typeof message?.data === "string"
    super.postMessage(query ? { ...message, data: message.data.replace(/(^|\s)-+/g, "$1") } : message, ...others)
  }
}
