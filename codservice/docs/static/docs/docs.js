// On a phone the lists of contents would push the page itself out of sight: there they begin closed.
if (matchMedia("(max-width: 860px)").matches) {
  for (const contents of document.querySelectorAll(".docs-nav, .docs-toc")) contents.open = false;
}
