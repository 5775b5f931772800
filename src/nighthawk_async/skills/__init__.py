"""Skills: folders with instructions for one kind of task each, in the open format of agentskills.io.

    skills = nh.skills.load("skills/")
    with nh.scope(skills=skills): ...

Models see names and descriptions, and read the rest when they need it; a block that names a skill has its
whole text. No script of a skill is run. See the page "Skills".
"""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .allowed_tools import AllowedTool as AllowedTool
    from .errors import SkillFault as SkillFault, SkillFileError as SkillFileError, SkillsError
    from .loading import load
    from .skill import Skill as Skill, Skills
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "allowed_tools": ("AllowedTool",),
            "errors": (
                "SkillFault",
                "SkillFileError",
                "SkillsError",
            ),
            "loading": ("load",),
            "skill": (
                "Skill",
                "Skills",
            ),
        },
    )

__all__ = [
    "Skills",
    "SkillsError",
    "load",
]
