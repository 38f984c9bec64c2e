// `<button data-copy="id">` copies the text of the element with that id and says so.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    getSelection().selectAllChildren(source);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      document.execCommand("copy"); // where the page is not secure: the selection
    }
    button.textContent = button.dataset.copied;
  });
}
