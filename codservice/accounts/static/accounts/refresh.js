// Refetches an element from its `data-refresh="address"` every few seconds, until it comes without the attribute.
// It pauses while the page is hidden, and gives up after a quarter of an hour.
const EVERY = 3000;
const UNTIL = Date.now() + 15 * 60 * 1000;

// Changes only what differs, so that only that is read out, and a link that is about to be pressed keeps the focus even
// when something above it changes.
function write(now, fresh) {
  let old = now.firstChild;
  function drop() {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
  for (const child of [...fresh.childNodes]) {
    const same = counterpart(child, old);
    if (!same) {
      now.insertBefore(child, old);
      continue;
    }
    while (old !== same) drop();
    write(same, child);
    old = same.nextSibling;
  }
  while (old) drop();
}

// For a text only the next node, for an element any later one.
function counterpart(child, old) {
  const isText = child.nodeType === Node.TEXT_NODE;
  while (old && !old.cloneNode().isEqualNode(child.cloneNode())) old = isText ? null : old.nextSibling;
  return old;
}

async function refresh(id) {
  const element = document.getElementById(id);
  if (!element.dataset.refresh || Date.now() > UNTIL) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(element.dataset.refresh, { redirect: "error", signal: AbortSignal.timeout?.(8000) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(id);
      if (answer.ok && fresh && !fresh.dataset.refresh) delete element.dataset.refresh;
      if (answer.ok && fresh) write(element, fresh);
    } catch {
      // The next turn tries again.
    }
  }
  setTimeout(refresh, EVERY, id);
}

for (const element of document.querySelectorAll("[data-refresh]")) setTimeout(refresh, EVERY, element.id);
