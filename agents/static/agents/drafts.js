// Drafts about calls, in localStorage: draft:<name> → {said, pause, state, at}, with what is `said` in each field by its
// name. call.js writes them, gone.js shows one, and this deletes those sent or a day old.
"use strict";

const DRAFTS = "draft:";
const DAY = 24 * 60 * 60 * 1000;

for (const { className } of document.querySelectorAll(".messagelist [class*=done-]")) {
  localStorage.removeItem(DRAFTS + /done-(\S+)/.exec(className)[1]);
}
for (const name of Object.keys(localStorage).filter((name) => name.startsWith(DRAFTS))) {
  if (Date.now() - JSON.parse(localStorage.getItem(name)).at > DAY) localStorage.removeItem(name);
}
