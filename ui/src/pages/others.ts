// The pages other than the first. They are one chunk: whoever has opened one of them can open all,
// also when the server fails then.
export { Audit } from './audit'
export { Canary } from './canary'
export { Emergency } from './emergency'
export { Key } from './key'
export { Lists } from './lists'
export { Nodes } from './nodes'
export { Replay } from './replay'
export { RulesPages } from './rules'
export { TiersPages } from './tiers'
export { Top } from './top'
export { Versions } from './versions'
