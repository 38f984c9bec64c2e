// On a phone, where each row is a card, long tables start closed, so that what follows is within reach.
const isPhone = matchMedia("(max-width: 720px)").matches; // as in pages.css
for (const table of document.querySelectorAll("details.long")) table.open = !isPhone;
