// Draws every figure of the page in the colours of the page, again when these change, and for print.
(() => {
  "use strict";
  const light = { ink: "#000000", grid: "#dddddd", rule: "#bbbbbb", panel: "#ffffff" };
  const printWidth = 330; // CSS pixels: two figures side by side on a page of A4
  const figures = [];
  let printing = false;

  const colours = () => {
    if (printing) return light;
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue("--" + name).trim();
    return { ink: value("ink"), grid: value("grid"), rule: value("rule"), panel: value("panel") };
  };

  const heightOf = (layout) => (printing ? Math.min(layout.height, 300) : layout.height);

  const themed = (layout) => {
    const chosen = colours();
    const result = structuredClone(layout);
    result.paper_bgcolor = result.plot_bgcolor = "rgba(0,0,0,0)";
    result.font = { color: chosen.ink, size: 12, family: getComputedStyle(document.body).fontFamily };
    result.hoverlabel = { bgcolor: chosen.panel, bordercolor: chosen.rule, font: { color: chosen.ink } };
    for (const key of Object.keys(result)) {
      if (/^[xy]axis\d*$/.test(key)) Object.assign(result[key], { gridcolor: chosen.grid, linecolor: chosen.rule });
    }
    // The element has the height: Plotly fits figures to it whenever the window changes.
    if (printing) Object.assign(result, { width: printWidth, height: heightOf(layout), autosize: false });
    else delete result.height;
    return result;
  };

  const draw = (figure) => {
    const variant = figure.variants[figure.shown];
    figure.place.style.height = heightOf(variant.layout) + "px";
    return Plotly.react(figure.place, structuredClone(variant.data), themed(variant.layout), {
      displayModeBar: false,
      responsive: true,
    });
  };

  const drawAll = () => Promise.all(figures.map(draw));

  for (const node of document.querySelectorAll("figure")) {
    const figure = {
      place: node.querySelector(".plot"),
      variants: JSON.parse(node.querySelector("script").textContent),
      shown: 0,
    };
    figures.push(figure);
    if (figure.variants.length > 1) {
      const select = document.createElement("select");
      select.setAttribute("aria-label", "what is shown");
      for (const variant of figure.variants) select.append(new Option(variant.name));
      select.addEventListener("change", () => {
        figure.shown = select.selectedIndex;
        draw(figure);
      });
      figure.place.before(select);
    }
  }

  drawAll().then(() => document.documentElement.setAttribute("data-drawn", String(figures.length)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => {
    printing = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    printing = false;
    drawAll();
  });
})();
