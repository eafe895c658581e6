(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const x = Array.from({ length: data.steps }, (_, i) => (data.start_us + i * data.step_us) / 1e6);
  const paperWidth = 640; // of a chart on paper, in CSS pixels
  let drawn = [];

  function color(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function draw(chart, i) {
    const place = document.getElementById("chart-" + i);
    const axis = { stroke: color("faint"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 } };
    const lines = chart.lines.map((line) => ({
      label: line.name, stroke: color(line.kind), width: 1.5, points: { show: data.steps === 1 },
      dash: line.kind === "after" ? [6, 3] : undefined, paths: uPlot.paths.stepped({ align: 1 }),
    }));
    return new uPlot({
      width: root.classList.contains("paper") ? paperWidth : place.clientWidth, height: 200,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { y: { range: (_, least, most) => [0, Math.max(1, most)] } },
      series: [{ label: "from (UTC)" }, ...lines],
      axes: [axis, { ...axis, size: 56, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 1e9] }],
    }, [x, ...chart.lines.map((line) => line.counts)], place);
  }

  function drawAll() {
    drawn.forEach((one) => one.destroy());
    drawn = (data.charts || []).map(draw);
  }

  function resize() {
    drawn.forEach((one, i) => one.setSize({ width: document.getElementById("chart-" + i).clientWidth, height: 200 }));
  }

  // Paper has the light colours and the numbers of every chart.
  let opened = [];
  addEventListener("beforeprint", () => {
    root.classList.add("paper");
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
    drawAll();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("paper");
    opened.forEach((one) => { one.open = false; });
    drawAll();
  });
  addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
