// Draws the diagrams of the book. Without network access a reader sees the text of the diagram.
const version = "12.3.0";
const source = `https://cdn.jsdelivr.net/npm/mermaid@${version}/dist/mermaid.esm.min.mjs`;
const blocks = document.querySelectorAll("code.language-mermaid");
if (blocks.length > 0) {
  import(source).then(({ default: mermaid }) => {
    const dark = ["ayu", "coal", "navy"].some((theme) => document.documentElement.classList.contains(theme));
    mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "default" });
    for (const block of blocks) {
      const drawing = document.createElement("pre");
      drawing.className = "mermaid";
      drawing.textContent = block.textContent;
      block.closest("pre").replaceWith(drawing);
    }
    mermaid.run();
  });
}
