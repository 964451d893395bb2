import type { ScalarTag } from 'yaml'

/** `yes`, `no`, `on` and `off`, which Hydra's reader takes for booleans; `y` and `n` it does not. */
const words: ScalarTag = {
  identify: (value) => typeof value === 'boolean',
  default: true,
  tag: 'tag:yaml.org,2002:bool',
  test: /^(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$/,
  resolve: (text) => /^(?:yes|on)$/i.test(text),
}

/** YAML as Hydra reads it, in what configurations use: version 1.2's own 1.1 reads the key `n` as False. */
export const YAML_OPTIONS = {
  version: '1.2' as const,
  uniqueKeys: true,
  customTags: (tags: unknown[]) => [words, ...(tags as ScalarTag[])],
}
