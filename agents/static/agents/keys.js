// Single keys press the element with that data-key, unless typing.
"use strict";

/** Latin letters by what the key says; digits and other scripts by the key's place, where AZERTY's A counts as A too. */
function keyOf(event) {
  if (/^[a-z]$/i.test(event.key)) return event.key.toLowerCase();
  const place = /^(?:Digit|Numpad|Key)(.)$/.exec(event.code.replace("KeyQ", "KeyA"));
  return place && event.key.length === 1 ? place[1].toLowerCase() : event.key;
}

/** AltGr, which writes # or @, counts as no other modifier everywhere. */
function isWithModifier(event) {
  return ["Control", "Alt", "AltGraph", "Meta", "Shift"].some((name) => event.getModifierState(name));
}

function isTyping(target) {
  return target.matches("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])");
}

document.addEventListener("keydown", (event) => {
  if (isWithModifier(event) || event.repeat || event.isComposing) return;
  if (event.key === "Escape") {
    document.activeElement.blur();
    for (const panel of document.querySelectorAll("details[name][open]")) {
      if (isTyping(event.target)) enter(panel); // the next key is still for the panel
      else turn(panel);
    }
    return;
  }
  if (isTyping(event.target)) {
    // Enter in a panel presses that panel's button.
    const button = event.key === "Enter" && event.target.matches("input") && event.target.closest(".panel")?.querySelector("button.wide");
    if (button) {
      event.preventDefault();
      button.click();
    }
    return;
  }
  if (document.documentElement.dataset.keys === "off") return;
  const key = keyOf(event);
  const inPanel = document.querySelector(`details[name][open] [data-then="${CSS.escape(key)}"]`); // the second of two keys
  const outside = isPanelOpen() ? ":not([name=outcome])" : ""; // while a panel is open, no key decides there
  const bearers = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]${outside}`)];
  const pressed = inPanel ?? bearers.find((each) => each.getClientRects().length && isOfChosenOrder(each));
  if (!pressed || pressed.closest("fieldset:disabled")) return;
  event.preventDefault();
  if (pressed.matches("textarea")) pressed.focus();
  else if (pressing.isDead(pressed) || isSecondOfTwo(pressed, key) || isForOthers(pressed)) return;
  else if (pressed.matches("summary")) turn(pressed.parentElement, key);
  else pressed.click();
});

/** Browsers without `:has` show what is for the other orders too. */
function isOfChosenOrder(bearer) {
  return bearer.closest("[data-order]")?.querySelector("[name=order]")?.checked ?? true;
}

function isPanelOpen() {
  return Boolean(document.querySelector("details[name][open]"));
}

/** The key that opened the panel, pressed again within a second, chooses nothing in it. */
let opened = {};
function isSecondOfTwo(pressed, key) {
  return pressed.dataset.then && key === opened.key && performance.now() - opened.at < 1000;
}

/** On a screen that came back about other orders, the first key that decides was for those before: it leads to why. */
function isForOthers(pressed) {
  const form = pressed.closest("form[data-about-others]");
  if (!form || !pressed.matches("[name=outcome]") || pressed.dataset.then) return false;
  form.removeAttribute("data-about-others");
  document.querySelector("[role=alert][tabindex]")?.focus();
  return true;
}

/** Acts at once, as the next key may be for the panel and the `toggle` event comes later. */
function turn(panel, key) {
  panel.open = !panel.open;
  if (!panel.open) return panel.querySelector("summary").focus();
  opened = { key, at: performance.now() };
  enter(panel);
}

/** Focus the first choice; fields are reached by key or Tab. Shuts the other panels, as newer browsers do by themselves. */
function enter(panel) {
  for (const other of document.querySelectorAll("details[name][open]")) if (other !== panel) other.open = false;
  if (!panel.querySelector(".panel").contains(document.activeElement)) panel.querySelector(".panel button").focus();
}

// A choice that needs words asks for them, and says if they cannot be read, as of a half-typed time.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-asks]");
  const words = button && document.getElementById(button.dataset.asks);
  if (!words || words.value) return;
  event.preventDefault();
  words.focus();
  words.reportValidity();
});

document.addEventListener("toggle", (event) => {
  if (event.target.matches("details[name]") && event.target.open) enter(event.target);
}, true);
