"""Skills: folders with instructions for one kind of task each, in the open format of agentskills.io. Floor 5.

    skills = nh.skills.load("skills/")
    with nh.scope(skills=skills): ...

Models see names and descriptions, and read the rest when they need it; a block that names a skill has its
whole text. No script of a skill is run. See the page "Skills".
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "allowed_tools": ("AllowedTool",),
        "errors": ("SkillFault", "SkillFileError", "SkillsError"),
        "loading": ("load",),
        "skill": ("Skill", "Skills"),
    },
)
