// Keeps the live part of a page up to date, and asks before something is destroyed. The pages work without it.
"use strict";

(() => {
  const live = document.getElementById("live");
  const lost = document.getElementById("lost");
  const root = document.documentElement.dataset.root || "";

  // What the reader is doing must not be pulled away: typing, ticking, an opened detail.
  const isBusy = () => {
    const active = document.activeElement;
    const typing = active && live.contains(active) && ["INPUT", "TEXTAREA", "SELECT"].includes(active.tagName);
    return typing || live.querySelector("input:checked, details[open], dialog[open]") !== null ||
      !document.getSelection().isCollapsed;
  };

  const focusAgain = (show) => {
    const active = document.activeElement;
    const place = active && live.contains(active) ? active.dataset.focus : null;
    show();
    const found = place && live.querySelector(`[data-focus="${CSS.escape(place)}"]`);
    if (found) found.focus({ preventScroll: true });
  };

  if (live && live.dataset.path) {
    const source = new EventSource(`${root}/live?path=${encodeURIComponent(live.dataset.path)}`);
    source.addEventListener("live", (event) => {
      lost.hidden = true;
      if (!isBusy()) focusAgain(() => { live.innerHTML = JSON.parse(event.data); });
    });
    source.addEventListener("open", () => { lost.hidden = true; });
    source.addEventListener("error", () => { lost.hidden = false; });
    window.addEventListener("pagehide", () => source.close());
  }

  document.addEventListener("submit", (event) => {
    const question = event.submitter && event.submitter.dataset.ask;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    const all = event.target.dataset && event.target.dataset.all;
    if (!all) return;
    for (const box of document.querySelectorAll(`input[data-of="${CSS.escape(all)}"]`)) {
      box.checked = event.target.checked;
    }
  });
})();
