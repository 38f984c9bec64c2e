// `<button data-copy="id" hidden>` copies the text of the element with that id and says so. Shown if scripts run.
const said = document.createElement("p");
said.className = "visually-hidden";
said.setAttribute("role", "status");
document.getElementById("main").append(said);

for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    getSelection().selectAllChildren(source);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      if (!document.execCommand("copy")) return; // copies the selection on insecure pages, or it stays to be copied by hand
    }
    button.textContent = said.textContent = button.dataset.copied;
    setTimeout(() => {
      button.textContent = label;
      said.textContent = "";
    }, 4000);
  });
  button.hidden = false;
}
