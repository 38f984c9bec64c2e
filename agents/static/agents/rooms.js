// On a phone the rooms scroll sideways: the current one is to be seen.
"use strict";

document.querySelector("#rooms [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
