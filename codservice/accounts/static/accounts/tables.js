// On a phone, where a row is a card, a long table is opened by who wants it: what stands behind it is in reach.
const isPhone = matchMedia("(max-width: 720px)").matches; // as in pages.css
for (const table of document.querySelectorAll("details.long")) table.open = !isPhone;
