// Updates the live part of a page, and asks before something is destroyed. The pages work without it.
"use strict";

(() => {
  const live = document.getElementById("live");
  const connection = document.getElementById("connection");
  const root = document.documentElement.dataset.root || "";
  const RETRY = 2000; // milliseconds

  // --- updates in place: focus, scrolling, selections and opened details stay.

  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE && node.dataset.key) || "";
  const alike = (old, fresh) => old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName;

  // An element in which the user selects or writes something is not updated.
  const isHeld = (node) => node.dataset.hold !== undefined &&
    (node.querySelector("input:checked") !== null || [...node.querySelectorAll("textarea")].some(isTouched));
  const isTouched = (field) => field === document.activeElement || field.value !== field.defaultValue;

  const update = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (isHeld(old) || old.isEqualNode(fresh)) return;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    updateChildren(old, fresh);
  };

  // Removes nodes without a key, up to `end` or the next node with a key. A node that is moved loses the focus.
  const clear = (place, end) => {
    while (place && place !== end && !keyOf(place)) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
    return place;
  };

  const updateChildren = (old, fresh) => {
    const known = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
    let place = old.firstChild;
    for (const node of [...fresh.childNodes]) {
      const key = keyOf(node);
      const match = key ? known.get(key) : place && !keyOf(place) && alike(place, node) ? place : null;
      known.delete(key);
      if (!match || !alike(match, node)) {
        old.insertBefore(node, place);
        continue;
      }
      if (key) place = clear(place, match);
      if (match === place) place = place.nextSibling;
      else old.insertBefore(match, place);
      update(match, node);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  };

  const show = (html) => {
    if (live.dataset.unavailable !== undefined) {
      location.reload(); // the page was loaded without a store, and has nothing else to update
      return;
    }
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    updateChildren(live, fresh.content);
  };

  const showProblem = (text) => {
    live.classList.toggle("stale", text !== "");
    if (connection.textContent !== text) connection.textContent = text;
    connection.hidden = text === "";
  };

  // --- the stream ------------------------------------------------------------------------------------------

  let source = null;

  const connect = () => {
    source = new EventSource(`${root}/live?path=${encodeURIComponent(live.dataset.path)}`);
    source.addEventListener("live", (event) => {
      showProblem("");
      show(JSON.parse(event.data));
    });
    source.addEventListener("unavailable", (event) => {
      if (live.dataset.unavailable === undefined) showProblem(`Store unavailable: ${JSON.parse(event.data)}`);
    });
    source.addEventListener("error", () => {
      showProblem("The connection to the dashboard is lost. Trying again…");
      if (source.readyState === EventSource.CLOSED) setTimeout(connectOrReload, RETRY);
    });
  };

  // A browser gives up when the answer is not a stream: a login page, or the error of a proxy.
  const connectOrReload = async () => {
    try {
      const answer = await fetch(location.href, { method: "HEAD", redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 403) location.reload();
      else connect();
    } catch {
      setTimeout(connectOrReload, RETRY);
    }
  };

  if (live.dataset.path) {
    connect();
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
  }

  // --- forms -----------------------------------------------------------------------------------------------

  document.addEventListener("submit", (event) => {
    const { ask, needs } = (event.submitter && event.submitter.dataset) || {};
    const ticked = (of) => document.querySelector(`input[data-of="${CSS.escape(of)}"]:checked`);
    if (needs && !ticked(needs)) {
      event.preventDefault();
      window.alert("Nothing is selected.");
    } else if (ask && !window.confirm(ask)) event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    const all = event.target.dataset && event.target.dataset.all;
    if (!all) return;
    for (const box of document.querySelectorAll(`input[data-of="${CSS.escape(all)}"]`)) {
      box.checked = event.target.checked;
    }
  });
})();
