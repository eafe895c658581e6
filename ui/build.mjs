// Builds the admin pages into the folder that the program embeds.
//
//   node build.mjs          generates the types of the API, checks the types, writes dist
//   node build.mjs --check  writes nothing, and fails if dist or the types would change
//
// The names of the files contain a hash of their content, so that browsers may keep them.
import { build } from 'esbuild'
import openapi, { astToString } from 'openapi-typescript'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const admin = join(here, '../cmd/stint/internal')
const dist = join(admin, 'adminui/dist')
const types = join(here, 'src/api.gen.ts')
const check = process.argv.includes('--check')

const source = join(admin, 'adminapi/openapi.yaml')
const sum = createHash('sha256').update(readFileSync(source)).digest('hex')
// A Go test compares the sum, so that a change of the document is also noticed without Node.js.
const generated = `// SHA-256 of openapi.yaml: ${sum}\n` + astToString(await openapi(pathToFileURL(source)))
if (!check) writeFileSync(types, generated)
else if (readFileSync(types, 'utf8') !== generated) fail('src/api.gen.ts differs from adminapi/openapi.yaml')

const compiler = join(here, 'node_modules/typescript/bin/tsc')
if (spawnSync(process.execPath, [compiler, '-p', here], { stdio: 'inherit' }).status !== 0) process.exit(1)

const bundle = await build({
  absWorkingDir: here,
  entryPoints: ['src/main.tsx', 'src/app.css'],
  outdir: dist,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2022'],
  minify: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  legalComments: 'none',
  metafile: true,
  write: false,
})

const files = new Map(bundle.outputFiles.map((f) => [basename(f.path), Buffer.from(f.contents)]))
const named = (prefix, suffix) => [...files.keys()].find((name) => name.startsWith(prefix) && name.endsWith(suffix))
const main = Object.entries(bundle.metafile.outputs).find(([path]) => basename(path) === named('main-', '.js'))[1]
// The browser loads what the entry imports at the same time as the entry.
const preloads = main.imports.filter((i) => i.kind === 'import-statement').map((i) => `<link rel="modulepreload" href="${basename(i.path)}">\n`)
const page = readFileSync(join(here, 'src/index.html'), 'utf8')
  .replace('main.js', named('main-', '.js'))
  .replace('app.css', named('app-', '.css'))
  .replace('</head>', `${preloads.join('')}</head>`)
files.set('index.html', Buffer.from(page))

const licenses = join(admin, 'adminui/licenses')
if (check) {
  compare(dist, files)
  compare(licenses, licensesOf(bundle.metafile))
} else {
  write(dist, files)
  write(licenses, licensesOf(bundle.metafile))
}

// licensesOf returns the licenses of the packages in a bundle, for THIRD_PARTY_LICENSES.
function licensesOf(metafile) {
  const names = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1])
  return new Map([...new Set(names.filter(Boolean))].sort().map((name) => [`${name.replace('/', '+')}/LICENSE`, readFileSync(join(here, 'node_modules', name, 'LICENSE'))]))
}

function compare(folder, wanted) {
  const there = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)))
  const differ = [...new Set([...there, ...wanted.keys()])].filter(
    (name) => !there.includes(name) || !wanted.get(name)?.equals(readFileSync(join(folder, name))),
  )
  if (differ.length > 0) fail(`${basename(folder)} is not what the sources build: ${differ.join(', ')}`)
}

function write(folder, contents) {
  rmSync(folder, { recursive: true, force: true })
  for (const [name, content] of contents) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
}

function fail(what) {
  console.error(`ui: ${what} (run: make ui)`)
  process.exit(1)
}
