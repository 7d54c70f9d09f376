// Draws the figures of a report page; all of them are in its tables, too.
(() => {
  "use strict";

  const COLOURS = {
    succeeded: "#22a35a",
    stage_done: "#0e9fc7",
    retried: "#e2a310",
    failed: "#dc2f2f",
    timed_out: "#a046d8",
    expired: "#e8691b",
    released: "#94a3b8",
    cancelled: "#64748b",
    p50: "#7c8cf8",
    p95: "#4f46e5",
    p99: "#d4479c",
    rate: { light: "#1e293b", dark: "#e2e8f0" },
  };
  const INK = {
    light: { text: "#4b5563", line: "#e5e7eb", box: "#ffffff" },
    dark: { text: "#9ca3af", line: "#374151", box: "#1f2937" },
  };
  // Pixels that fit every paper; a chart of automatic size would keep that of the screen.
  const PAPER = { width: 640, height: 230 };
  // Fewer bars are seen whole.
  const LEAST_ZOOMED = 30;

  const { time, group, words } = JSON.parse(document.getElementById("report-figures").textContent);
  const charts = new Map();
  let isPrinted = false;

  const theme = () => (!isPrinted && document.documentElement.classList.contains("dark") ? "dark" : "light");

  function duration(ms) {
    if (ms === null || ms === undefined) return "–";
    if (ms > 0 && ms < 1000) return words.ms.replace("{count}", Math.round(ms));
    if (ms < 9950) return words.s.replace("{count}", +(ms / 1000).toFixed(1));
    // As the server says it: of two units at most.
    let left = Math.round(ms / 1000);
    const parts = [];
    for (const [unit, size] of [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]]) {
      const number = Math.floor(left / size);
      if (number && parts.length < 2) parts.push(words[unit].replace("{count}", number));
      else if (parts.length) break;
      left %= size;
    }
    return parts.join(" ");
  }

  const count = (number) => Number(number).toLocaleString("en");
  const percent = (number) => (number === null || number === undefined ? "–" : `${number} %`);

  function base(ink, names, { isSideways = false } = {}) {
    const isLong = names.length >= LEAST_ZOOMED && !isSideways;
    const axis = { axisLine: { lineStyle: { color: ink.line } }, axisTick: { show: false }, axisLabel: { color: ink.text, hideOverlap: true } };
    const category = { ...axis, type: "category", data: names, inverse: isSideways };
    if (isSideways) category.axisLabel = { color: ink.text, fontSize: 11, interval: 0, width: 110, overflow: "truncate" };
    return {
      isLong,
      category,
      value: { ...axis, type: "value", minInterval: 1, splitLine: { lineStyle: { color: ink.line } } },
      option: {
        animation: false,
        // By name, because widths are measured with it.
        textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
        legend: { show: !isSideways, type: "scroll", top: 0, textStyle: { color: ink.text, fontSize: 11 }, pageTextStyle: { color: ink.text }, itemGap: 8, itemWidth: 12, itemHeight: 8 },
        grid: { left: 8, right: 8, top: isSideways ? 8 : 36, bottom: isLong ? 44 : 8, containLabel: true },
        tooltip: {
          trigger: "axis",
          axisPointer: { type: "shadow" },
          // Foreign names are text here, never markup.
          renderMode: "richText",
          confine: true,
          backgroundColor: ink.box,
          borderColor: ink.line,
          textStyle: { color: ink.text },
        },
        dataZoom: isLong
          ? [
              { type: "slider", height: 18, bottom: 8, borderColor: ink.line, textStyle: { color: ink.text }, brushSelect: true },
              { type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
            ]
          : [],
      },
    };
  }

  // Many points are a line alone, but for those that no line leads to.
  function dots(values) {
    const isAlone = (n) => (values[n - 1] ?? null) === null && (values[n + 1] ?? null) === null;
    return { showSymbol: true, showAllSymbol: true, symbolSize: (_value, { dataIndex: n }) => (values.length < LEAST_ZOOMED || isAlone(n) ? 5 : 0) };
  }

  function ends(ink, figures, { isSideways = false } = {}) {
    const { category, value, option } = base(ink, figures.names, { isSideways });
    const bars = figures.series.map(({ name, key, values }) => ({
      name,
      id: key,
      type: "bar",
      stack: "ends",
      data: values,
      barMaxWidth: 28,
      itemStyle: { color: COLOURS[key] },
      cursor: "pointer",
      tooltip: { valueFormatter: count },
    }));
    if (isSideways) return { ...option, xAxis: value, yAxis: category, series: bars };
    const rate = {
      name: words.rate,
      id: "rate",
      type: "line",
      data: figures.rates,
      ...dots(figures.rates),
      lineStyle: { width: 2 },
      itemStyle: { color: COLOURS.rate[theme()] },
      tooltip: { valueFormatter: percent },
    };
    const share = { ...value, min: 0, max: 100, minInterval: 0, splitLine: { show: false }, axisLabel: { ...value.axisLabel, formatter: "{value} %" } };
    return { ...option, xAxis: category, yAxis: [value, share], series: [...bars, { ...rate, yAxisIndex: 1 }] };
  }

  function times(ink, of) {
    const { category, value, option } = base(ink, time.names);
    const lines = time.times
      .filter(({ key }) => key.startsWith(`${of}_`))
      .map(({ name, key, values }) => ({
        name,
        id: key,
        type: "line",
        // A logarithm has no zero.
        data: values.map((value) => (value === null ? null : Math.max(value, 1))),
        ...dots(values),
        lineStyle: { width: 2 },
        itemStyle: { color: COLOURS[key.slice(-3)] },
        tooltip: { valueFormatter: duration },
      }));
    // One slow hour must not flatten all others.
    const axis = { ...value, type: "log", minInterval: 0, axisLabel: { ...value.axisLabel, formatter: duration } };
    return { ...option, xAxis: category, yAxis: axis, series: lines };
  }

  function options(ink) {
    return {
      "report-ends": ends(ink, time),
      "report-groups": group ? ends(ink, group, { isSideways: true }) : null,
      "report-wait": times(ink, "wait"),
      "report-run": times(ink, "run"),
    };
  }

  const stamp = (seconds) => new Date(seconds * 1000).toISOString().replace(".000", "");

  function entriesOf({ links, entries, edges }, n) {
    if (links) return new URL(links[n], window.location.href);
    const url = new URL(entries, window.location.href);
    url.searchParams.set("since", stamp(edges[n]));
    url.searchParams.set("until", stamp(edges[n + 1]));
    return url;
  }

  // A bar leads to the list of what it counts, as its figure in the table does.
  function follow(figures) {
    return ({ componentSubType, seriesId, dataIndex }) => {
      if (componentSubType !== "bar") return;
      const url = entriesOf(figures, dataIndex);
      url.searchParams.set("counted", seriesId);
      window.location.assign(url);
    };
  }

  function draw() {
    for (const [id, option] of Object.entries(options(INK[theme()]))) {
      const place = document.getElementById(id);
      if (!place || !option || !place.clientWidth) continue;
      let chart = charts.get(id);
      if (!chart) {
        chart = echarts.init(place, null, { renderer: "svg" });
        chart.on("click", follow(id === "report-groups" ? group : time));
        // What is seen through time is zoomed together.
        if (id !== "report-groups") chart.group = "time";
        charts.set(id, chart);
        place.dataset.drawn = "yes";
      }
      // Chosen zooms stay, whatever else is drawn anew.
      const zoom = chart.getOption()?.dataZoom;
      if (zoom?.length) option.dataZoom.forEach((each, n) => Object.assign(each, { start: zoom[n].start, end: zoom[n].end }));
      chart.resize(isPrinted ? PAPER : undefined);
      chart.setOption(option, { notMerge: true });
    }
  }

  echarts.connect("time");
  // The page has no width until the theme shows it.
  new ResizeObserver(draw).observe(document.querySelector(".report-charts"));
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["class"] });
  for (const [event, isNow] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => {
      isPrinted = isNow;
      draw();
    });
  }
})();
