// Of the file's columns those are shown that nothing is matched with, as the choices are now.
document.addEventListener("change", () => {
  const read = new Set([...document.querySelectorAll(".pairs select")].map((select) => select.value));
  const unread = document.getElementById("unread");
  const columns = [...unread.querySelectorAll("[data-place]")];
  for (const column of columns) column.hidden = read.has(column.dataset.place);
  unread.hidden = columns.every((column) => column.hidden);
});
