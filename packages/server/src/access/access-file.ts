import { groupRights, rights, TOKEN_HASH } from '@taskmaster/proto';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { AccessTable } from './access-table.ts';

/** Thrown for a file that cannot be used. `problems`: all of them, for the operator. */
export class AccessFileError extends Error {
  override readonly name = 'AccessFileError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`invalid access file: ${problems.join('; ')}`);
    this.problems = problems;
  }
}

const isOfGroups = (right: string): boolean => (groupRights as readonly string[]).includes(right);
const NAME = /^[^()\s][^()]*$/;
const name = z.string().min(1).max(256).regex(NAME, { error: 'must not begin with a space or contain parentheses' });

const grant = z
  .strictObject({
    groups: z.array(z.string().max(512)).min(1).optional(),
    allow: z.array(z.enum(rights, { error: `must be one of ${rights.join(', ')}` })).min(1),
  })
  .superRefine(({ groups, allow }, context) => {
    for (const [index, right] of allow.entries()) {
      if (isOfGroups(right) === (groups !== undefined)) continue;
      const message = isOfGroups(right)
        ? `${right} needs groups: name patterns of groups ("*" for all)`
        : `${right} is about the whole cluster: give it in an entry without groups`;
      context.addIssue({ code: 'custom', path: ['allow', index], message });
    }
  });

const count = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional();
const NO_LIMITS = { error: 'name a quota, or leave the entry out' };
const limits = <T extends z.ZodRawShape>(shape: T) =>
  z.strictObject(shape).refine((given) => Object.keys(given).length > 0, NO_LIMITS);

const accessSchema = z.strictObject({
  principals: z.array(
    z.strictObject({
      name,
      tokens: z
        .array(z.string().regex(TOKEN_HASH, { error: 'must be sha256: and 64 hexadecimal digits (lower case)' }))
        .default([]),
      certificates: z.array(name).default([]),
      jwtSubjects: z.array(name).default([]),
      rights: z.array(grant).default([]),
      limits: limits({
        connections: count,
        requestsPerSecond: z.number().min(0.001).max(1_000_000).optional(),
        bytesInFlight: count,
        waiters: count,
      }).optional(),
    }),
  ),
  groups: z
    .array(
      z.strictObject({
        groups: z.array(z.string().max(512)).min(1),
        limits: limits({ tasks: count, bytes: count, queues: count }),
      }),
    )
    .default([]),
});

/** Reads the text of an access file. @throws AccessFileError */
export function parseAccessFile(text: string): AccessTable {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw new AccessFileError(document.errors.map(({ message }) => message));
  const parsed = accessSchema.safeParse(contentOf(document));
  if (!parsed.success) {
    throw new AccessFileError(parsed.error.issues.map(({ path, message }) => `${pathText(path)}: ${message}`));
  }
  try {
    return new AccessTable(parsed.data);
  } catch (error) {
    if (error instanceof RangeError) throw new AccessFileError([error.message]);
    throw error;
  }
}

/** The library refuses a document whose aliases stand for far more nodes than it has. */
function contentOf(document: ReturnType<typeof parseDocument>): unknown {
  try {
    return document.toJS();
  } catch (error) {
    throw new AccessFileError([error instanceof Error ? error.message : String(error)]);
  }
}

const pathText = (path: readonly PropertyKey[]): string =>
  path.length === 0
    ? 'the file'
    : path.map((key, at) => (typeof key === 'number' ? `[${key}]` : `${at > 0 ? '.' : ''}${String(key)}`)).join('');
