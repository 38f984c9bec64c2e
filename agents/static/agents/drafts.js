// What is being written of a call, in localStorage: draft:<name> → {said, state, at}. call.js writes it, gone.js shows one,
// this forgets what was sent or is a day old.
"use strict";

const DRAFTS = "draft:";
const DAY = 24 * 60 * 60 * 1000;

for (const message of document.querySelectorAll(".messagelist [class*=done-]")) {
  const done = [...message.classList].find((name) => name.startsWith("done-"));
  localStorage.removeItem(DRAFTS + done.slice("done-".length));
}
for (const name of Object.keys(localStorage).filter((name) => name.startsWith(DRAFTS))) {
  if (Date.now() - JSON.parse(localStorage.getItem(name)).at > DAY) localStorage.removeItem(name);
}
