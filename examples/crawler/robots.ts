import parser from 'robots-parser';

/** What a site's robots.txt says. */
export interface Robots {
  isDisallowed(url: string, userAgent: string): boolean | undefined;
  /** In seconds. */
  getCrawlDelay(userAgent: string): number | undefined;
}

/** The package exports the function itself; its types say that it is a property of what is exported. */
const robotsParser = parser as unknown as (url: string, rules: string) => Robots;

/** @param url of the robots.txt. @param rules what it says; empty: everything is allowed. */
export function parseRobots(url: string, rules: string): Robots {
  return robotsParser(url, rules);
}
