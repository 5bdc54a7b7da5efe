// Light or dark: colours are CSS variables of the host (JupyterLab, VS Code, a page); what needs two sets of colours
// looks at the computed background.

type Changed = (dark: boolean) => void;

export function isDark(root: HTMLElement): boolean {
  const [r, g, b] = (getComputedStyle(root).backgroundColor.match(/[\d.]+/g) ?? ["255", "255", "255"]).map(Number);
  return 0.3 * r + 0.59 * g + 0.11 * b < 128;
}

/** Keep the class `tsr-dark` of `root` true, and tell `changed` (canvases draw again).  Returns how to stop. */
export function followTheme(root: HTMLElement, changed: Changed): () => void {
  const look = () => {
    const dark = isDark(root);
    if (root.classList.contains("tsr-dark") === dark && root.dataset.shade) return;
    root.dataset.shade = dark ? "dark" : "light";
    root.classList.toggle("tsr-dark", dark);
    changed(dark);
  };
  const soon = () => setTimeout(look, 50);
  const observer = new MutationObserver(soon);
  observer.observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-name", "data-jp-theme-light"] });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", soon);
  look();
  return () => {
    observer.disconnect();
    media.removeEventListener("change", soon);
  };
}

/** The value of a CSS variable of the view, for canvases: `colour(root, "--ink")`. */
export const colour = (root: HTMLElement, name: string): string => getComputedStyle(root).getPropertyValue(name).trim();

/** Okabe and Ito's colours, told apart with every kind of colour blindness; used together with signs or texts. */
export const PALETTE = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#b3a300", "#8c7bd1"];
