// The page of a customer who is gone shows what the agent had typed, and forgets a note that is saved.
"use strict";

(() => {
  const shown = document.getElementById("kept-note");
  if (shown.dataset.address) history.replaceState(null, "", shown.dataset.address); // no browser asks to send it again
  const names = Object.keys(localStorage).filter((name) => name.startsWith(DRAFTS + shown.dataset.drafts));
  const drafts = names.map((name) => ({ name, ...JSON.parse(localStorage.getItem(name)) }));
  const draft = drafts.find((each) => each.state === shown.dataset.state);
  const said = Object.values(draft?.said ?? {}).filter(Boolean);
  if (!said.length || shown.value) return;
  const note = draft.said.note.trim();
  if (note && `\n${shown.dataset.noted}`.endsWith(`\n${note}`)) return localStorage.removeItem(draft.name);
  shown.value = said.join("\n");
  shown.closest("section").hidden = false;
})();
